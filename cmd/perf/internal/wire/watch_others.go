//go:build !unix

package wire

func isRefused(error) bool { return false }

func isInUse(error) bool { return false }

func isNotOurs(error) bool { return false }

func isUnreachable(error) bool { return false }

func isReset(error) bool { return false }

func isDead(error) bool { return false }

func (w *Conn) watchSocket(gone func(error), spoke func()) (stop func()) { return func() {} }
