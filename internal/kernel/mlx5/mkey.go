package mlx5

import (
	"encoding/binary"
	"math"
	"syscall"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/control"
)

// Commands of the firmware. C: MLX5_CMD_OP_*.
const (
	createMkey = 0x200
	createPSV  = 0x600
)

const (
	knownMkeyFlags = abi.MLX5DV_MKEY_INIT_ATTR_FLAGS_INDIRECT | abi.MLX5DV_MKEY_INIT_ATTR_FLAGS_BLOCK_SIGNATURE |
		abi.MLX5DV_MKEY_INIT_ATTR_FLAGS_CRYPTO | abi.MLX5DV_MKEY_INIT_ATTR_FLAGS_UPDATE_TAG |
		abi.MLX5DV_MKEY_INIT_ATTR_FLAGS_REMOTE_INVALIDATE

	bsfOctowords = 64 / 16 // of a signature, and of an encryption. C: struct mlx5_bsf, struct mlx5_crypto_bsf
)

// CreateMkey makes an indirect memory key, and the places where the device keeps the state of its signature.
func (r *Rings) CreateMkey(a *abi.MLX5DVMkeyInitAttr) (handle, control.Mkey, error) {
	p, err := get[pd](r.v, a.PD)
	if err != nil {
		return 0, control.Mkey{}, err
	}
	has := func(flag uint32) bool { return a.CreateFlags&flag != 0 }
	signed := has(abi.MLX5DV_MKEY_INIT_ATTR_FLAGS_BLOCK_SIGNATURE)
	encrypts := has(abi.MLX5DV_MKEY_INIT_ATTR_FLAGS_CRYPTO)
	switch {
	case a.MaxEntries > math.MaxUint16-3:
		return 0, control.Mkey{}, syscall.EINVAL
	case a.CreateFlags == 0, has(^uint32(knownMkeyFlags)),
		has(abi.MLX5DV_MKEY_INIT_ATTR_FLAGS_UPDATE_TAG) &&
			p.c.info.CompMask&abi.MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_MKEY_UPDATE_TAG == 0,
		signed && p.c.queryCaps(capsGeneral).signatures().BlockProt == 0,
		encrypts && p.c.queryCaps(capsGeneral).crypto(p.c).CryptoEngines == 0:
		return 0, control.Mkey{}, syscall.EOPNOTSUPP
	}
	a.MaxEntries = (a.MaxEntries + 3) &^ 3
	m := &mkey{object: object{c: p.c}}
	key := control.Mkey{Follow: true}
	if signed {
		for i := range key.PSV {
			if key.PSV[i], err = m.addPSV(p); err != nil {
				return 0, control.Mkey{}, also(err, m.end())
			}
		}
	}
	if key.LKey, err = m.add(p, a, signed, encrypts); err != nil {
		return 0, control.Mkey{}, also(err, m.end())
	}
	key.RKey = key.LKey
	return r.v.table.add(m), key, nil
}

// part makes an object of the firmware that the key consists of.
func (m *mkey) part(in, out []byte) error {
	o, err := m.c.obj(in, out)
	if err == nil {
		m.parts = append(m.parts, o)
	}
	return answered(out, err)
}

// addPSV makes a place for the state of a signature. C: struct mlx5_ifc_create_psv_in_bits.
func (m *mkey) addPSV(p *pd) (index uint32, err error) {
	const one = 1 << 28
	in, out := make([]byte, 16), make([]byte, 32)
	be := binary.BigEndian
	be.PutUint16(in, createPSV)
	be.PutUint32(in[8:], one|p.device)
	err = m.part(in, out)
	return be.Uint32(out[16:]) & (1<<24 - 1), err
}

// add makes the key. C: struct mlx5_ifc_create_mkey_in_bits, mlx5_ifc_mkc_bits.
func (m *mkey) add(p *pd, a *abi.MLX5DVMkeyInitAttr, signed, encrypts bool) (key uint32, err error) {
	const (
		context                      = 16 // in the command
		free, umr, localRead, klms   = 1 << 30, 1 << 15, 1 << 10, 2 << 8
		noQPN                        = 0xffffff << 8
		bsf, peerFrees, encryptsOnce = 1 << 30, 1 << 24, 1 << 27
	)
	in, out := make([]byte, 272), make([]byte, 16)
	be := binary.BigEndian
	be.PutUint16(in, createMkey)
	c := in[context:]
	be.PutUint32(c, free|umr|localRead|klms)
	be.PutUint32(c[4:], noQPN)
	octowords := sum(choice[uint32]{signed, bsfOctowords}) + sum(choice[uint32]{encrypts, bsfOctowords})
	be.PutUint32(c[12:], p.device|sum(choice[uint32]{octowords > 0, bsf},
		choice[uint32]{a.CreateFlags&abi.MLX5DV_MKEY_INIT_ATTR_FLAGS_REMOTE_INVALIDATE != 0, peerFrees}))
	be.PutUint32(c[32:], octowords)
	be.PutUint32(c[52:], uint32(a.MaxEntries))
	be.PutUint32(c[60:], sum(choice[uint32]{encrypts, encryptsOnce}))
	err = m.part(in, out)
	return be.Uint32(out[8:]) << 8, err
}

// end ends the parts of a key. If one stays, another try continues with it.
func (m *mkey) end() error {
	for len(m.parts) > 0 {
		if err := m.parts[0].end(); err != nil {
			return err
		}
		m.parts = m.parts[1:]
	}
	return nil
}

// DestroyMkey ends a key.
func (m *mkey) DestroyMkey() error { return m.end() }
