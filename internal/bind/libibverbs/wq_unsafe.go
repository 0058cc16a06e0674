package libibverbs

import (
	"runtime"
	"unsafe"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/cmem"
)

// WQNumber returns the number of a struct ibv_wq.
func (l Lib) WQNumber(wq uintptr) uint32 { return cmem.At[abi.WQ](wq).WQNum }

// struct ibv_rwq_ind_table *(*create_rwq_ind_table)(struct ibv_context *, struct ibv_rwq_ind_table_init_attr *);
// The table has 1<<log places for the WQs.
func (l Lib) CreateRWQIndTable(ctx uintptr, log uint32, wqs []uintptr) (uintptr, error) {
	list := cmem.Heap(unsafe.Pointer(unsafe.SliceData(wqs)))
	attr := &abi.RWQIndTableInitAttr{LogIndTblSize: log, IndTbl: list}
	h, err := opPtr(ctx, abi.DistCreateRWQIndTable, ctx, uintptr(unsafe.Pointer(attr)))
	runtime.KeepAlive(wqs)
	return h, err
}
