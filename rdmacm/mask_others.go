//go:build !linux

package rdmacm

// undisturbed runs f.
func undisturbed(f func() error) error { return f() }
