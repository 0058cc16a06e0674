//go:build !pureverbs_native && pureverbs_ucma

package rdmacm

import (
	"github.com/pureverbs/pureverbs/internal/bind/libibverbs"
	"github.com/pureverbs/pureverbs/internal/control"
)

// openLibrary opens the native rdma_cm with the verbs of libibverbs. The tag is for tests on adapters that the native
// control path does not drive.
func openLibrary() (control.CM, error) {
	v, err := libibverbs.Open()
	if err != nil {
		return nil, err
	}
	return native(v)
}
