//go:build !pureverbs_native && !pureverbs_ucma

package rdmacm

import (
	"github.com/pureverbs/pureverbs/internal/bind/librdmacm"
	"github.com/pureverbs/pureverbs/internal/control"
)

func openLibrary() (control.CM, error) { return librdmacm.Open() }
