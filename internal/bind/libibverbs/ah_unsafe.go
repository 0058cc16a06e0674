package libibverbs

import (
	"unsafe"

	"github.com/pureverbs/pureverbs/internal/abi"
)

// struct ibv_ah *ibv_create_ah(struct ibv_pd *, struct ibv_ah_attr *);
func (l Lib) CreateAH(pd uintptr, attr *abi.AHAttr) (uintptr, error) {
	return l.lib.Ptr("ibv_create_ah", pd, uintptr(unsafe.Pointer(attr)))
}

// int ibv_destroy_ah(struct ibv_ah *ah);
func (l Lib) DestroyAH(ah uintptr) error { return l.destroy("ibv_destroy_ah", ah) }
