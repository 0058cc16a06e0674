// Package claims holds what the documentation claims to what the code and the libraries have.
package claims
