package work

import "github.com/pureverbs/pureverbs/internal/abi"

// MkeyBlock is a piece of memory from which an indirect key repeatedly takes Bytes and leaves out the next Skip bytes.
type MkeyBlock = abi.MLX5DVMRInterleaved

// MkeyUpdate describes a change of an indirect memory key. It is on the heap, where C reads it.
type MkeyUpdate struct {
	Handle uintptr // struct mlx5dv_mkey *
	Key    uint32
	Places uint32 // of the send queue that libmlx5 takes for it
	Setup  bool   // by mkey_configure; else by mr_list or mr_interleaved, which older libraries have

	SetAccess bool
	Access    uint32
	List      []SGE
	Blocks    []MkeyBlock
	Repeat    uint32 // of the blocks
	Conf      abi.MLX5DVMkeyConfAttr
	Signature *Signature
	Crypto    *abi.MLX5DVCryptoAttr
	DEK       uint32 // the device's number of the key of Crypto, if libmlx5 does not keep it
}

// Entries returns the number of entries of the layout, and whether there is one.
func (m *MkeyUpdate) Entries() (n int, ok bool) {
	return len(m.List) + len(m.Blocks), m.List != nil || m.Blocks != nil
}

// Length returns the length of the memory under the key.
func (m *MkeyUpdate) Length() (n uint64) {
	for i := range m.List {
		n += uint64(m.List[i].Length)
	}
	for i := range m.Blocks {
		n += uint64(m.Blocks[i].BytesCount) * uint64(m.Repeat)
	}
	return n
}
