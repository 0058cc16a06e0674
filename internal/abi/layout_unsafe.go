package abi

import "unsafe"

// As in layout_gen_unsafe.go, for mirrors that are not generated.
var (
	_ [16]byte = [unsafe.Sizeof(GID{})]byte{}
	_ [16]byte = [unsafe.Sizeof(Timespec{})]byte{}
	_ [48]byte = [unsafe.Sizeof(BindMW{})]byte{}
	_ [48]byte = [unsafe.Sizeof(TagOp{})]byte{}
	_ [16]byte = [unsafe.Sizeof(MLX5DVInOut{})]byte{}
	_ [56]byte = [unsafe.Sizeof(ClockPage{})]byte{}
)
