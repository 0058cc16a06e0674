// Package kube starts the agents of a mesh as a Job of Kubernetes. Before that, it takes a Lease, so that of several
// runs one has the nodes and the others have none of them.
//
// Claim decides, Lock asks the API server, Job is the agents. Client is as much of an API server's client as they need.
package kube
