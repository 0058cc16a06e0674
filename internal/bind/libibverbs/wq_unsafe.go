package libibverbs

import (
	"runtime"
	"unsafe"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/cmem"
)

// struct ibv_wq *(*create_wq)(struct ibv_context *, struct ibv_wq_init_attr *);
// An op of verbs_context, not an export, as is all of this file. The inline function also initialises the mutex and
// what follows it, to the zeros that providers leave there.
func (l Lib) CreateWQ(ctx uintptr, attr *abi.WQInitAttr) (uintptr, error) {
	return opPtr(ctx, abi.DistCreateWQ, ctx, uintptr(unsafe.Pointer(attr)))
}

// int (*modify_wq)(struct ibv_wq *, struct ibv_wq_attr *);
func (l Lib) ModifyWQ(ctx, wq uintptr, attr *abi.WQAttr) error {
	return opErr(ctx, abi.DistModifyWQ, wq, uintptr(unsafe.Pointer(attr)))
}

// int (*destroy_wq)(struct ibv_wq *);
func (l Lib) DestroyWQ(ctx, wq uintptr) error {
	return l.Destroyed(ctx, opErr(ctx, abi.DistDestroyWQ, wq))
}

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

// int (*destroy_rwq_ind_table)(struct ibv_rwq_ind_table *);
func (l Lib) DestroyRWQIndTable(ctx, table uintptr) error {
	return l.Destroyed(ctx, opErr(ctx, abi.DistDestroyRWQIndTable, table))
}
