//go:build !unix

package wire

func isRefused(error) bool { return false }

func isReset(error) bool { return false }

// Watch does nothing on this system.
func (w *Conn) Watch(gone func(error)) (stop func()) { return func() {} }
