package mlx5dv

import (
	"fmt"
	"math"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/control"
	"github.com/pureverbs/pureverbs/internal/level"
	"github.com/pureverbs/pureverbs/internal/work"
)

// The flags.
const (
	knownMkeyFlags = MkeyBlockSignature | MkeyCrypto | MkeyUpdateTag | MkeyRemoteInvalidate
)

// MkeyOptions are the options of CreateMkey.
//
// C: struct mlx5dv_mkey_init_attr.
type MkeyOptions struct {
	MaxEntries int // entries of a layout; 0 means 4
	Flags      MkeyFlags
}

// Mkey is an indirect memory key: it maps pieces of memory that have their own keys, one after the other, from address
// 0. Work requests lay it out, again and again:
//
//	qp, err := mlx5dv.CreateQP(pd, cq, cq, &mlx5dv.QPOptions{
//		QPOptions: ibv.QPOptions{MaxInline: 128}, DriverOps: mlx5dv.WithMkeyConfigure})
//	mkey, err := mlx5dv.CreateMkey(pd, nil)
//	change, err := mkey.Change(&mlx5dv.MkeyConfig{Access: ibv.LocalWrite, List: []ibv.SGE{header, body}})
//	qp.PostSend([]ibv.SendWR{
//		{Opcode: ibv.OpDriver1, Mkey: change},
//		{Opcode: ibv.OpSend, Flags: ibv.Signaled, SGEs: []ibv.SGE{{Addr: 0, Length: n, LKey: mkey.LKey()}}},
//	})
//
// Its methods are safe for concurrent use.
type Mkey struct {
	*ibv.Mkey
	lib     control.MLX5
	entries int
	flags   MkeyFlags
	caps    Signature
	several bool // units are encrypted at a time
}

// CreateMkey creates an indirect memory key; opt may be nil.
//
// C: mlx5dv_create_mkey(3), of libmlx5 v24. It needs a kernel and a device with DevX.
func CreateMkey(pd *ibv.PD, opt *MkeyOptions) (*Mkey, error) {
	const op = "mlx5dv create mkey"
	if opt == nil {
		opt = &MkeyOptions{}
	}
	lib, _, err := beginOn(pd, op).reach()
	if err != nil {
		return nil, err
	}
	name := pd.Device().Name()
	m := &Mkey{lib: lib, flags: opt.Flags}
	if err := m.check(pd.Device(), opt); err != nil {
		return nil, opError(op, name, err)
	}
	create := func(h uintptr) (i ibv.MkeyInfo, err error) {
		attr := &abi.MLX5DVMkeyInitAttr{PD: h, CreateFlags: abi.MLX5DV_MKEY_INIT_ATTR_FLAGS_INDIRECT |
			uint32(opt.Flags), MaxEntries: uint16(max(opt.MaxEntries, 4))}
		p, key, err := lib.CreateMkey(attr)
		if err != nil {
			if why := withoutDevX(pd.Device(), err, "an mkey"); why != nil {
				return i, why
			}
			return i, verbs.ExplainUnsupported(err, "an mkey with "+opt.Flags.String(),
				"a kernel and a device with DevX, and a libmlx5 that knows the flags",
				name+", or a libmlx5 that refused it")
		}
		m.entries = int(attr.MaxEntries)
		return ibv.MkeyInfo{Handle: p, LKey: key.LKey, RKey: key.RKey, Signs: opt.Flags&MkeyBlockSignature != 0,
			Encrypts: opt.Flags&MkeyCrypto != 0, Several: m.several, Follow: key.Follow, PSV: key.PSV}, nil
	}
	if m.Mkey, err = verbs.CreateMkey(pd, op, create, lib.DestroyMkey); err != nil {
		return nil, err
	}
	return m, nil
}

// check checks the options of a new key.
func (m *Mkey) check(dev *ibv.Device, opt *MkeyOptions) error {
	switch {
	case opt.MaxEntries < 0:
		return &ibv.ArgError{Arg: "MaxEntries", Got: fmt.Sprint(opt.MaxEntries), Want: "0 or more"}
	case opt.MaxEntries > math.MaxUint16-3:
		return &ibv.LimitError{What: "MaxEntries", Asked: uint64(opt.MaxEntries), Limit: math.MaxUint16 - 3,
			Where: "a field of 16 bits"}
	case opt.Flags&^knownMkeyFlags != 0:
		return &ibv.ArgError{Arg: "Flags", Got: opt.Flags.String(), Want: "of " + knownMkeyFlags.String()}
	case opt.Flags&(MkeyBlockSignature|MkeyCrypto) == 0:
		return nil
	case verbs.HasFault(dev, level.SignedKeys):
		return verbs.Without(dev, "an mkey with "+opt.Flags.String(),
			"a libmlx5 that does not write behind the send queue", "v44")
	}
	attr, err := QueryDevice(dev)
	if err != nil {
		return err
	}
	m.caps, m.several = attr.Signature, attr.Crypto.Engines&CryptoAESXTSMultiBlock != 0
	switch {
	case opt.Flags&MkeyBlockSignature != 0 && attr.Signature.Protections == 0:
		return &ibv.UnsupportedError{Feature: "a block signature", Need: "a device with DeviceAttr.Signature",
			Have: dev.Name() + " without it"}
	case opt.Flags&MkeyCrypto != 0 && attr.Crypto.Engines == 0:
		return noCrypto(dev.Name())
	}
	return nil
}

// MaxEntries returns the number of entries that a layout may have. QPOptions.MaxInline also bounds it.
func (m *Mkey) MaxEntries() int { return m.entries }

// Block is a piece of memory from which a layout repeatedly takes Bytes and leaves out the next Skip bytes.
//
// C: struct mlx5dv_mr_interleaved.
type Block struct {
	Addr  uint64
	Bytes uint32
	Skip  uint32
	LKey  uint32
}

// MkeyConfig describes a change of an Mkey. Fields that are not set keep their values.
//
// C: the setters of mlx5dv_wr_mkey_configure(3).
type MkeyConfig struct {
	Access ibv.AccessFlags // LocalWrite, RemoteRead, RemoteWrite, RemoteAtomic; AccessNone: only reading here

	// The layout: List, or Repeat times all Blocks, one behind the other.
	List   []ibv.SGE
	Blocks []Block
	Repeat uint32

	Signature      *BlockSignature // of a key with MkeyBlockSignature
	ResetSignature bool            // no signature, before Signature sets one
	Crypto         *BlockCrypto    // of a key with MkeyCrypto
}

const mkeyAccess = ibv.LocalWrite | ibv.RemoteRead | ibv.RemoteWrite | ibv.RemoteAtomic

// Change returns what a work request of the opcode ibv.OpDriver1 does to the key, in its field Mkey. Work
// requests behind it on the same QP see the change. It can be posted more than once. Its completion is of the opcode
// ibv.WCDriver1.
func (m *Mkey) Change(c *MkeyConfig) (*ibv.MkeyChange, error) {
	const op = "mlx5dv change mkey"
	name := m.PD().Device().Name()
	if c == nil {
		return nil, opError(op, name, &ibv.ArgError{Arg: "config", Got: "nil", Want: "what the key becomes"})
	}
	if err := m.checkConfig(c); err != nil {
		return nil, opError(op, name, err)
	}
	u := &work.MkeyUpdate{Places: 1, Repeat: c.Repeat, SetAccess: c.Access != 0, Access: uint32(c.Access & mkeyAccess)}
	for _, s := range c.List {
		u.List = append(u.List, work.SGE(s))
	}
	for _, b := range c.Blocks {
		u.Blocks = append(u.Blocks, work.MkeyBlock{Addr: b.Addr, BytesCount: b.Bytes, BytesSkip: b.Skip, LKey: b.LKey})
	}
	_, layout := u.Entries()
	u.Setup = !layout || !u.SetAccess || m.flags != 0 || c.Signature != nil
	if c.ResetSignature {
		u.Conf.ConfFlags = abi.MLX5DV_MKEY_CONF_FLAG_RESET_SIG_ATTR
	}
	if c.Signature != nil {
		u.Signature = c.Signature.toC()
		u.Places += u.Signature.Domains()
	} else if m.flags&MkeyBlockSignature != 0 { // libmlx5 may set the state of both domains again
		u.Places += 2
	}
	if c.Crypto != nil {
		u.Crypto, u.DEK = c.Crypto.toC(), c.Crypto.DEK.number
	}
	return verbs.ChangeMkey(m.Mkey, u), nil
}

func (m *Mkey) checkConfig(c *MkeyConfig) error {
	n, most := len(c.List)+len(c.Blocks), m.entries
	if len(c.Blocks) > 0 {
		most--
	}
	switch {
	case c.Access&^(mkeyAccess|ibv.AccessNone) != 0:
		return &ibv.ArgError{Arg: "Access", Got: c.Access.String(), Want: "of " + mkeyAccess.String()}
	case len(c.List) > 0 && len(c.Blocks) > 0:
		return &ibv.ArgError{Arg: "List and Blocks", Got: "both set", Want: "one of them"}
	case n > most:
		return &ibv.LimitError{What: "entries of the layout", Asked: uint64(n), Limit: uint64(most),
			Where: "MkeyOptions.MaxEntries; Blocks take one more"}
	case len(c.Blocks) == 0 && c.Repeat != 0:
		return &ibv.ArgError{Arg: "Repeat", Got: fmt.Sprint(c.Repeat), Want: "0 without Blocks"}
	case len(c.Blocks) > 0 && c.Repeat == 0:
		return &ibv.ArgError{Arg: "Repeat", Got: "0", Want: "how often the Blocks follow one another"}
	case c.Signature == nil && !c.ResetSignature:
	case m.flags&MkeyBlockSignature == 0:
		return &ibv.ArgError{Arg: "Signature", Got: "set", Want: "an mkey made with MkeyBlockSignature"}
	}
	if c.Crypto != nil {
		if m.flags&MkeyCrypto == 0 {
			return &ibv.ArgError{Arg: "Crypto", Got: "set", Want: "an mkey made with MkeyCrypto"}
		}
		if err := c.Crypto.check(); err != nil {
			return err
		}
	}
	if c.Signature != nil {
		if err := c.Signature.check(&m.caps); err != nil {
			return err
		}
	}
	return c.checkLayout()
}

// checkLayout checks what libmlx5 would cut off: lengths of 31 bits in a list and of 16 bits in a block.
func (c *MkeyConfig) checkLayout() error {
	sum := uint64(0)
	for i, s := range c.List {
		if s.Length == 0 {
			return &ibv.ArgError{Arg: fmt.Sprintf("List[%d].Length", i), Got: "0", Want: "at least 1 byte"}
		}
		sum += uint64(s.Length)
	}
	for i, b := range c.Blocks {
		switch {
		case b.Bytes == 0:
			return &ibv.ArgError{Arg: fmt.Sprintf("Blocks[%d].Bytes", i), Got: "0", Want: "at least 1 byte"}
		case uint64(b.Bytes)+uint64(b.Skip) > math.MaxUint16:
			return &ibv.LimitError{What: fmt.Sprintf("Bytes and Skip of Blocks[%d]", i),
				Asked: uint64(b.Bytes) + uint64(b.Skip), Limit: math.MaxUint16, Where: "a field of 16 bits"}
		}
	}
	if sum > ibv.MaxSGELength {
		return &ibv.LimitError{What: "bytes of the List", Asked: sum, Limit: ibv.MaxSGELength, Where: "an mkey"}
	}
	return nil
}
