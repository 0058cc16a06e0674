package ibv

import (
	"errors"
	"testing"
)

// A raw packet QP sends frames and nothing else.
func TestRawPacketOpcodes(t *testing.T) {
	dev := &Device{}
	dev.attr.CapFlags = DeviceRawIPCsum
	qp := &QP{pd: &PD{object: object{dev: dev}}, dev: dev, typ: RawPacket, cap: QPCap{MaxSendSGE: 1}}
	qp.sq = sender{qp: qp, ops: opcodesOf(RawPacket)}
	for op := range Opcode(40) {
		_, err := qp.sq.checkSend(&SendWR{Opcode: op, Flags: Signaled | IPCsum, SGEs: []SGE{{Length: 60}}})
		var ae *ArgError
		if op == OpTSO { // TestFake_Raw
			continue
		}
		if op == OpSend {
			if err != nil {
				t.Errorf("Send: %v", err)
			}
		} else if !errors.As(err, &ae) || ae.Arg != "Opcode" || ae.Got != op.String() ||
			ae.Want != "an opcode of a RawPacket QP: Send, TSO" {
			t.Errorf("%v: %v", op, err)
		}
	}
	if plainOf(RawPacket) != 0 {
		t.Errorf("the fast encoder takes %#x", plainOf(RawPacket))
	}
}
