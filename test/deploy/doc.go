// Package deploy holds the manifests in deploy to Kubernetes' own types. It is a module of its own, so that the library
// does not depend on Kubernetes.
package deploy
