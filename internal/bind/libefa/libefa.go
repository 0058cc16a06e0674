// Package libefa calls libefa: one method for each C function, named after it, with its prototype above.
package libefa

import (
	"github.com/pureverbs/pureverbs/internal/bind"
	"github.com/pureverbs/pureverbs/loader"
)

// Lib is libefa.
type Lib struct{ lib bind.Library }

// Open opens the library that libibverbs has loaded as its driver.
func Open() (Lib, error) {
	l, err := bind.Open(loader.EFA)
	return Lib{l}, err
}
