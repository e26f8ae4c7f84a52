module coterie/tests/peers/bosh

go 1.24

require (
	github.com/cloudfoundry/bosh-agent/v2 v2.759.0
	github.com/cloudfoundry/bosh-cli/v7 v7.9.12
)
