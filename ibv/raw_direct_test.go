package ibv

import (
	"syscall"
	"testing"
)

// What libmlx5 refuses of a frame, the direct data path refuses with the reason.
func TestRawDirectRefusals(t *testing.T) {
	dev := &Device{}
	qp := &QP{dev: dev, typ: RawPacket, frameHead: 18}
	wantErr(t, qp.addFrame(&SendWR{Opcode: OpSend, Flags: IPCsum, SGEs: []SGE{{Length: 60}}}, 0), ErrNotSupported,
		"checksums", "RawIPCsum")
	wantErr(t, qp.addFrame(&SendWR{Opcode: OpSend, SGEs: []SGE{{Length: 10}, {Length: 7}}}, 0), syscall.EINVAL,
		"17 bytes", "at least 18")
	wantErr(t, qp.addFrame(&SendWR{Opcode: OpSend, Inline: make([]byte, 17)}, 17), syscall.EINVAL, "17 bytes")
	qp.frameHead = 0
	wantErr(t, qp.addFrame(&SendWR{Opcode: OpSend, SGEs: []SGE{{}}}, 0), syscall.EINVAL, "0 bytes", "at least 1")
}
