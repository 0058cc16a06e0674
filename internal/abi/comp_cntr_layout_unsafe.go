package abi

import "unsafe"

var (
	_ [16]byte = [unsafe.Sizeof(CompCntrCaps{})]byte{}
	_ [12]byte = [unsafe.Sizeof(CompCntrInitAttr{})]byte{}
	_ [8]byte  = [unsafe.Sizeof(QPAttachCompCntrAttr{})]byte{}
)
