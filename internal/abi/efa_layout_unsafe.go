package abi

import "unsafe"

var (
	_ [32]byte = [unsafe.Sizeof(EFADVDeviceAttr{})]byte{}
	_ [16]byte = [unsafe.Sizeof(EFADVAHAttr{})]byte{}
	_ [24]byte = [unsafe.Sizeof(EFADVSQDepthAttr{})]byte{}
	_ [16]byte = [unsafe.Sizeof(EFADVRQDepthAttr{})]byte{}
	_ [24]byte = [unsafe.Sizeof(EFADVQPInitAttr{})]byte{}
	_ [40]byte = [unsafe.Sizeof(EFADVWQAttr{})]byte{}
	_ [56]byte = [unsafe.Sizeof(EFADVCQInitAttr{})]byte{}
	_ [32]byte = [unsafe.Sizeof(EFADVCQAttr{})]byte{}
	_ [24]byte = [unsafe.Sizeof(EFADVCQ{})]byte{}
	_ [16]byte = [unsafe.Sizeof(EFADVMRAttr{})]byte{}
)
