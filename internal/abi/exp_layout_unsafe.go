package abi

import "unsafe"

// The build breaks here when a mirror of the experimental verbs loses its layout.
var (
	_ [24]byte  = [unsafe.Sizeof(ExpCQInitAttr{})]byte{}
	_ [152]byte = [unsafe.Sizeof(ExpQPInitAttr{})]byte{}
	_ [168]byte = [unsafe.Sizeof(ExpQPAttr{})]byte{}
	_ [72]byte  = [unsafe.Sizeof(ExpDCTInitAttr{})]byte{}
	_ [72]byte  = [unsafe.Sizeof(ExpDCTAttr{})]byte{}
	_ [40]byte  = [unsafe.Sizeof(ExpDCT{})]byte{}
	_ [288]byte = [unsafe.Sizeof(ExpSendWR{})]byte{}
	_ [104]byte = [unsafe.Sizeof(ExpWC{})]byte{}
	_ [48]byte  = [unsafe.Sizeof(ExpClockInfo{})]byte{}
	_ [72]byte  = [unsafe.Sizeof(ExpValues{})]byte{}
	_ [600]byte = [unsafe.Sizeof(ExpDeviceAttr{})]byte{}
	_ [16]byte  = [unsafe.Sizeof(ExpExtAtomicsParams{})]byte{}
	_ [24]byte  = [unsafe.Sizeof(ExpMaskedAtomicParams{})]byte{}

	_ [60]byte  = [unsafe.Offsetof(ExpQPInitAttr{}.CompMask)]byte{}
	_ [104]byte = [unsafe.Offsetof(ExpQPInitAttr{}.MaxAtomicArg)]byte{}
	_ [136]byte = [unsafe.Offsetof(ExpQPAttr{}.DCTKey)]byte{}
	_ [48]byte  = [unsafe.Offsetof(ExpDCTInitAttr{}.MTU)]byte{}
	_ [36]byte  = [unsafe.Offsetof(ExpDCTAttr{}.State)]byte{}
	_ [40]byte  = [unsafe.Offsetof(ExpSendWR{}.Wr)]byte{}
	_ [128]byte = [unsafe.Offsetof(ExpSendWR{}.DC)]byte{}
	_ [200]byte = [unsafe.Offsetof(ExpSendWR{}.ExpSendFlags)]byte{}
	_ [216]byte = [unsafe.Offsetof(ExpSendWR{}.ExtOp)]byte{}
	_ [48]byte  = [unsafe.Offsetof(ExpWC{}.Timestamp)]byte{}
	_ [80]byte  = [unsafe.Offsetof(ExpWC{}.ExpWCFlags)]byte{}
	_ [228]byte = [unsafe.Offsetof(ExpDeviceAttr{}.CompMask)]byte{}
	_ [312]byte = [unsafe.Offsetof(ExpDeviceAttr{}.ExtAtom)]byte{}
	_ [448]byte = [unsafe.Offsetof(ExpDeviceAttr{}.MaskedAtomic)]byte{}
)
