module coterie/tests/peers/helm

go 1.24.0

require (
	helm.sh/helm/v3 v3.19.5
	k8s.io/apimachinery v0.34.2
	k8s.io/client-go v0.34.2
)
