package abi

import "structs"

// MLX5DVMkeyInitAttr is struct mlx5dv_mkey_init_attr (infiniband/mlx5dv.h, rdma-core v65).
type MLX5DVMkeyInitAttr struct {
	_           structs.HostLayout
	PD          uintptr
	CreateFlags uint32
	MaxEntries  uint16
	_           [2]byte
}

// MLX5DVMkey is struct mlx5dv_mkey (infiniband/mlx5dv.h, rdma-core v65).
type MLX5DVMkey struct {
	_    structs.HostLayout
	LKey uint32
	RKey uint32
}

// MLX5DVMRInterleaved is struct mlx5dv_mr_interleaved (infiniband/mlx5dv.h, rdma-core v65).
type MLX5DVMRInterleaved struct {
	_          structs.HostLayout
	Addr       uint64
	BytesCount uint32
	BytesSkip  uint32
	LKey       uint32
	_          [4]byte
}

// MLX5DVMkeyConfAttr is struct mlx5dv_mkey_conf_attr (infiniband/mlx5dv.h, rdma-core v65).
type MLX5DVMkeyConfAttr struct {
	_         structs.HostLayout
	ConfFlags uint32
	_         [4]byte
	CompMask  uint64
}

// MLX5DVSigT10DIF is struct mlx5dv_sig_t10dif (infiniband/mlx5dv.h, rdma-core v65).
type MLX5DVSigT10DIF struct {
	_      structs.HostLayout
	BGType uint32
	BG     uint16
	AppTag uint16
	RefTag uint32
	Flags  uint16
	_      [2]byte
}

// MLX5DVSigCRC is struct mlx5dv_sig_crc (infiniband/mlx5dv.h, rdma-core v65).
type MLX5DVSigCRC struct {
	_    structs.HostLayout
	Type uint32
	_    [4]byte
	Seed uint64
}

// MLX5DVSigBlockDomain is struct mlx5dv_sig_block_domain (infiniband/mlx5dv.h, rdma-core v65).
type MLX5DVSigBlockDomain struct {
	_         structs.HostLayout
	SigType   uint32
	_         [4]byte
	Sig       uintptr // a union of pointers: to a MLX5DVSigT10DIF or a MLX5DVSigCRC
	BlockSize uint32
	_         [4]byte
	CompMask  uint64
}

// MLX5DVSigBlockAttr is struct mlx5dv_sig_block_attr (infiniband/mlx5dv.h, rdma-core v65).
type MLX5DVSigBlockAttr struct {
	_         structs.HostLayout
	Mem       uintptr
	Wire      uintptr
	Flags     uint32
	CheckMask uint8
	CopyMask  uint8
	_         [2]byte
	CompMask  uint64
}

// MLX5DVSigErr is struct mlx5dv_sig_err (infiniband/mlx5dv.h, rdma-core v65).
type MLX5DVSigErr struct {
	_             structs.HostLayout
	ActualValue   uint64
	ExpectedValue uint64
	Offset        uint64
}

// MLX5DVMkeyErr is struct mlx5dv_mkey_err (infiniband/mlx5dv.h, rdma-core v65).
type MLX5DVMkeyErr struct {
	_       structs.HostLayout
	ErrType uint32
	_       [4]byte
	Err     MLX5DVSigErr // a union of one member
}

// MLX5DVCryptoAttr is struct mlx5dv_crypto_attr (infiniband/mlx5dv.h, rdma-core v65).
type MLX5DVCryptoAttr struct {
	_                    structs.HostLayout
	CryptoStandard       uint32
	EncryptOnTx          uint8
	_                    [3]byte
	SignatureCryptoOrder uint32
	DataUnitSize         uint32
	InitialTweak         [16]byte
	DEK                  uintptr
	Keytag               [8]byte
	CompMask             uint64
}

// MLX5DVCryptoLoginAttr is struct mlx5dv_crypto_login_attr (infiniband/mlx5dv.h, rdma-core v65).
type MLX5DVCryptoLoginAttr struct {
	_            structs.HostLayout
	CredentialID uint32
	ImportKEKID  uint32
	Credential   [48]byte
	CompMask     uint64
}

// MLX5DVDEKInitAttr is struct mlx5dv_dek_init_attr (infiniband/mlx5dv.h, rdma-core v65). CryptoLogin is absent before
// v42.
type MLX5DVDEKInitAttr struct {
	_           structs.HostLayout
	KeySize     uint32
	HasKeytag   uint8
	_           [3]byte
	KeyPurpose  uint32
	_           [4]byte
	PD          uintptr
	Opaque      [8]byte
	Key         [128]byte
	CompMask    uint64
	CryptoLogin uintptr
}

// MLX5DVDEKAttr is struct mlx5dv_dek_attr (infiniband/mlx5dv.h, rdma-core v65).
type MLX5DVDEKAttr struct {
	_        structs.HostLayout
	State    uint32
	Opaque   [8]byte
	_        [4]byte
	CompMask uint64
}
