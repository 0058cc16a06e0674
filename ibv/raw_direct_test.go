package ibv

import (
	"syscall"
	"testing"
)

// What libmlx5 refuses of a frame (copy_eth_inline_headers, providers/mlx5/qp.c), both data paths refuse and explain.
func TestFrameRefusals(t *testing.T) {
	dev := &Device{}
	qp := &QP{pd: &PD{object: object{dev: dev}}, dev: dev, typ: RawPacket, cap: QPCap{MaxSendSGE: 2, MaxInline: 64}}
	qp.sq = sender{qp: qp, ops: opcodesOf(RawPacket), frameHead: 18}
	check := func(wr SendWR) error {
		_, err := qp.sq.checkSend(&wr)
		return err
	}
	wantErr(t, check(SendWR{Opcode: OpSend, Flags: IPCsum, SGEs: []SGE{{Length: 60}}}), ErrNotSupported,
		"checksums", "RawIPCsum")
	wantErr(t, check(SendWR{Opcode: OpSend, SGEs: []SGE{{Length: 10}, {Length: 7}}}), syscall.EINVAL,
		"17 bytes", "at least 18")
	wantErr(t, check(SendWR{Opcode: OpSend, Inline: make([]byte, 17)}), syscall.EINVAL, "17 bytes")
	ok(t, check(SendWR{Opcode: OpSend, SGEs: []SGE{{Length: 10}, {Length: 8}}}))
	qp.sq.frameHead = 0
	wantErr(t, check(SendWR{Opcode: OpSend, SGEs: []SGE{{}}}), syscall.EINVAL, "0 bytes", "at least 1")
	if qp.sq.plainOps() != 0 {
		t.Errorf("%#x are posted without these checks", qp.sq.plainOps())
	}
}
