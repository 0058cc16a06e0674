package abi

import "unsafe"

// The build breaks here when a mirror of memory keys loses its layout.
var (
	_ [16]byte  = [unsafe.Sizeof(MLX5DVMkeyInitAttr{})]byte{}
	_ [8]byte   = [unsafe.Sizeof(MLX5DVMkey{})]byte{}
	_ [24]byte  = [unsafe.Sizeof(MLX5DVMRInterleaved{})]byte{}
	_ [16]byte  = [unsafe.Sizeof(MLX5DVMkeyConfAttr{})]byte{}
	_ [16]byte  = [unsafe.Sizeof(MLX5DVSigT10DIF{})]byte{}
	_ [16]byte  = [unsafe.Sizeof(MLX5DVSigCRC{})]byte{}
	_ [32]byte  = [unsafe.Sizeof(MLX5DVSigBlockDomain{})]byte{}
	_ [32]byte  = [unsafe.Sizeof(MLX5DVSigBlockAttr{})]byte{}
	_ [24]byte  = [unsafe.Sizeof(MLX5DVSigErr{})]byte{}
	_ [32]byte  = [unsafe.Sizeof(MLX5DVMkeyErr{})]byte{}
	_ [56]byte  = [unsafe.Sizeof(MLX5DVCryptoAttr{})]byte{}
	_ [64]byte  = [unsafe.Sizeof(MLX5DVCryptoLoginAttr{})]byte{}
	_ [176]byte = [unsafe.Sizeof(MLX5DVDEKInitAttr{})]byte{}
	_ [24]byte  = [unsafe.Sizeof(MLX5DVDEKAttr{})]byte{}
)
