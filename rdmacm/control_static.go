//go:build pureverbs_native

package rdmacm

import (
	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/control"
)

func openLibrary() (control.CM, error) {
	return nil, &ibv.UnsupportedError{Feature: "librdmacm", Need: "a program built without the tag pureverbs_native",
		Have: "a static program"}
}
