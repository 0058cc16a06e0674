// Package reference tests the reference documentation of the public packages: that doc.go of each names all of its
// types and functions, that its links lead somewhere, and that docs/experimental.txt lists what godoc calls
// experimental.
package reference
