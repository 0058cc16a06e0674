package libibverbs

import (
	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/cmem"
	"github.com/pureverbs/pureverbs/internal/control"
)

// HasRegMRIOVA2 reports whether the library has RegMRIOVA2.
func (l Lib) HasRegMRIOVA2() bool { return l.lib.Has("ibv_reg_mr_iova2") }

// MR reads a struct ibv_mr.
func (l Lib) MR(mr uintptr) control.MR {
	m := cmem.At[abi.MR](mr)
	return control.MR{Addr: m.Addr, Length: int(m.Length), PD: m.PD, LKey: m.LKey, RKey: m.RKey, Number: m.Handle}
}
