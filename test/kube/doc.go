// Package kube shows deploy/kubernetes to a real API server with its controllers and scheduler, and to runc. There are
// no kubelets: nodes are objects, and the tests set how pods end.
//
//	make test-kube
package kube
