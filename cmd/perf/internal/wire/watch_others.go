//go:build !unix

package wire

func (w *Conn) watchSocket(gone func(error), spoke func()) (stop func()) { return func() {} }
