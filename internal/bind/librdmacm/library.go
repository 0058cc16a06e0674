// Package librdmacm calls librdmacm: one method for each C function, named after it, with its prototype above, in a
// file for each C object. Lib has rdma_cm, Sockets has rsocket.
package librdmacm

import (
	"github.com/pureverbs/pureverbs/internal/bind"
	"github.com/pureverbs/pureverbs/loader"
)

// Lib is the rdma_cm of librdmacm.
type Lib struct{ lib bind.Library }

// Open opens the library, once.
func Open() (Lib, error) {
	l, err := bind.Open(loader.RDMACM)
	return Lib{l}, err
}
