// A vCenter for tests: govmomi's simulator, as Debian packages it, behind a front that makes it stricter.
// The simulator is somebody else's; everything in this folder is ours.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"github.com/vmware/govmomi/simulator"
)

func main() {
	m := simulator.VPX()
	ints := map[string]*int{
		"dc": &m.Datacenter, "cluster": &m.Cluster, "host": &m.ClusterHost,
		"standalone-host": &m.Host, "ds": &m.Datastore, "vm": &m.Machine,
		"pool": &m.Pool, "pg": &m.Portgroup, "delay": &m.DelayConfig.Delay,
	}
	for name, p := range ints {
		flag.IntVar(p, name, *p, "size of the model: "+name)
	}
	flag.BoolVar(&m.Autostart, "autostart", m.Autostart, "power on the model's VMs")
	listen := flag.String("l", "127.0.0.1:0", "listen address (loopback)")
	methodDelay := flag.String("method-delay", "", "Method:ms[,Method:ms]")
	scrub := flag.Bool("scrub", false, "drop removed VMs from DRS groups and rules")
	declarations := flag.String("types", "", "file of the types that the API declares")
	lifeline := flag.Bool("lifeline", false, "end when standard input is closed")
	flag.Parse()
	m.DelayConfig.MethodDelay = delays(*methodDelay)
	if *declarations != "" {
		if err := readDeclarations(*declarations); err != nil {
			fail(err)
		}
	}

	log.SetOutput(io.Discard)
	if err := m.Create(); err != nil {
		fail(err)
	}
	attach(m)
	grow()
	if *scrub {
		registry().AddHandler(scrubber{})
	}
	// The simulator insists on a listener of its own; nobody is told of it.
	m.Service.Listen = &url.URL{Host: "127.0.0.1:0"}
	m.Service.NewServer()
	serve(*listen, newFront(m.Service.ServeMux))
	wait(*lifeline)
	m.Remove() // deletes the temporary folders of the datastores
}

// grow makes hosts of a size that people have; the simulator's have two threads and 4 GiB.
func grow() {
	for _, one := range registry().All("HostSystem") {
		host := one.(*simulator.HostSystem)
		hardware := *host.Summary.Hardware
		hardware.NumCpuThreads, hardware.MemorySize = 32, 128<<30
		host.Summary.Hardware = &hardware
	}
}

func delays(text string) map[string]int {
	found := map[string]int{}
	for _, item := range strings.Split(text, ",") {
		if method, ms, ok := strings.Cut(item, ":"); ok {
			found[method], _ = strconv.Atoi(ms)
		}
	}
	return found
}

func serve(address string, handler http.Handler) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		fail(err)
	}
	go func() { _ = http.Serve(listener, handler) }()
	told, _ := json.Marshal(map[string]interface{}{"pid": os.Getpid(), "url": "http://" + listener.Addr().String()})
	fmt.Println(string(told))
}

func wait(lifeline bool) {
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGINT, syscall.SIGTERM)
	if lifeline {
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin)
			stop <- syscall.SIGTERM
		}()
	}
	<-stop
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
