//go:build linux

package verbs

import (
	"github.com/pureverbs/pureverbs/emu/internal/hca"
	"github.com/pureverbs/pureverbs/emu/internal/uapi"
)

// Fields of a memory key's context. C: struct mlx5_ifc_mkc_bits.
const mkeyContext = 0x80

func mkeyField(at, n int) uapi.Bits { return uapi.Bits{At: mkeyContext + at, Len: n} }

var (
	mkcFree       = mkeyField(0x01, 1)
	mkcModeHigh   = mkeyField(0x03, 3)
	mkcUMR        = mkeyField(0x10, 1)
	mkcMode       = mkeyField(0x16, 2)
	mkcQPN        = mkeyField(0x20, 24)
	mkcVariant    = mkeyField(0x38, 8)
	mkcPeerFrees  = mkeyField(0x67, 1)
	mkcPD         = mkeyField(0x68, 24)
	mkcBSF        = mkeyField(0x100, 32)
	mkcOctowords  = mkeyField(0x1a0, 32)
	mkcEncryption = mkeyField(0x1e3, 2)

	mkeyUmem = uapi.Bits{At: 0x61, Len: 1}
	psvPD    = uapi.Bits{At: 0x48, Len: 24}
)

const (
	modeKLM      = 2 // C: MLX5_MKC_ACCESS_MODE_KLMS
	mostIndirect = 1 << 16
	noQPN        = 0xffffff
)

// createMkey makes an indirect key, which is what libmlx5 makes of keys by DevX.
func createMkey(d *command) (*hca.DevxObject, uapi.Status) {
	n, bsf := mkcOctowords.Get(d.in), mkcBSF.Get(d.in)
	switch {
	case mkcMode.Get(d.in) != modeKLM || mkcModeHigh.Get(d.in) != 0, mkcFree.Get(d.in) == 0, mkcUMR.Get(d.in) == 0,
		mkcQPN.Get(d.in) != noQPN, mkcEncryption.Get(d.in) != 0, mkeyUmem.Get(d.in) != 0, n == 0, n > mostIndirect,
		bsf > 4:
		return nil, uapi.StatusBadParam
	}
	k, destroy, e := hca.CreateIndirect(d.ctx, uint32(mkcPD.Get(d.in)), hca.IndirectKey{Octowords: uint32(n),
		Variant: uint8(mkcVariant.Get(d.in)), PeerMayFree: mkcPeerFrees.Get(d.in) != 0, BSFOctowords: uint32(bsf)})
	if e != 0 {
		return nil, statusOf(e)
	}
	return &hca.DevxObject{Name: "DevX mkey", Num: k.Key >> 8, Free: destroy}, uapi.StatusOK
}

// createPSV makes the place where the state of a signature is kept.
func createPSV(d *command) (*hca.DevxObject, uapi.Status) {
	num, destroy, e := hca.CreatePSV(d.ctx, uint32(psvPD.Get(d.in)))
	return &hca.DevxObject{Name: "DevX PSV", Num: num, Free: destroy}, statusOf(e)
}

// init2init changes a QP in INIT.
func init2init(d *command, o any) uapi.Status {
	qp := within[hca.QP](d, o)
	switch {
	case qp == nil || qp.Type == hca.RawPacket:
		return uapi.StatusBadResource
	case qp.State != hca.Init:
		return uapi.StatusBadQPState
	}
	mask, more := qpMask.Get(d.in), qpMoreMask.Get(d.in)
	switch copying := qp.Type == hca.RC || qp.Type == hca.DCI; {
	case mask&^optDrain != 0, more&^(moreMMO|moreSchedule) != 0, more != 0 && qpExtends.Get(d.in) == 0,
		more&moreMMO != 0 && !copying, more&moreSchedule != 0 && !d.schedulable(qp):
		return uapi.StatusBadParam
	}
	if mask&optDrain != 0 {
		qp.Extra.DrainSigErr = qpcDrain.Get(d.in) != 0
	}
	if more&moreMMO != 0 {
		qp.Extra.MayCopy = qpExtMMO.Get(d.in) != 0
	}
	return uapi.StatusOK
}

// logMaxCopy is the base-2 logarithm of the most bytes that a work request copies.
const logMaxCopy = 25
