package selftest

import (
	"fmt"
	"os"

	"github.com/pureverbs/pureverbs/hostfacts"
	"github.com/pureverbs/pureverbs/ibv"
)

// frameStep is step 12. Its steering rules match one address that nobody has, so the host's traffic stays the host's.
func frameStep(s *stage) {
	for _, path := range paths {
		s.check(fmt.Sprintf("frames to an address of this test, %v", path), func(b *box) { frames(b, path) })
	}
}

func frames(b *box, path ibv.DataPath) {
	switch {
	case !b.opt.Frames:
		b.skip("sends frames and makes steering rules: only with --frames")
	case b.at[0].Link == string(hostfacts.InfiniBand):
		b.skip("InfiniBand has no Ethernet frames")
	case b.at[0].Device == b.at[1].Device:
		b.skip("needs two ports: name two devices (-d)")
	case os.Geteuid() != 0:
		b.skip("needs root (CAP_NET_RAW)")
	}
	const room = 2048
	x, y := b.side(0, 64*room, path, nil), b.side(1, 64*room, path, nil)
	for _, s := range []*side{x, y} {
		qp := s.newQP(ibv.QPOptions{Type: ibv.RawPacket}, 0)
		s.ok(qp.Modify(&ibv.QPAttr{State: ibv.StateInit, Port: uint8(s.end.Port)}, ibv.MaskState|ibv.MaskPort))
		s.ok(qp.Modify(&ibv.QPAttr{State: ibv.StateRTR}, ibv.MaskState))
		s.ok(qp.Modify(&ibv.QPAttr{State: ibv.StateRTS}, ibv.MaskState))
	}
	b.engine(x.qp)
	to := ibv.MAC{0x02, 'v', 'e', 'r', 'b', 's'} // locally administered
	all := ibv.MAC{255, 255, 255, 255, 255, 255}
	own(y.qp.CreateFlow(&ibv.FlowAttr{Port: uint8(y.end.Port), Specs: []ibv.FlowSpec{
		ibv.FlowEth{Value: ibv.FlowEthFields{DstMAC: to}, Mask: ibv.FlowEthFields{DstMAC: all}}}}))(b)
	for i, n := range []int{60, 61, 64, 128, 1000, 1514} {
		frame := x.mr.Bytes()[:n]
		fill(frame, i)
		copy(frame, to[:])
		copy(frame[6:], []byte{0x02, 0, 0, 0, 0, 1, 0x88, 0xb5}) // for local experiments
		b.recv(y.qp, uint64(i), y.mr.SGE(0, room))
		x.post(ibv.SendWR{ID: uint64(i), Opcode: ibv.OpSend, Flags: ibv.Signaled, SGEs: []ibv.SGE{x.mr.SGE(0, n)}})
		x.good(uint64(i))
		if wc := y.good(uint64(i)); int(wc.ByteLen) != n || string(y.mr.Bytes()[:n]) != string(frame) {
			b.fail("a frame of %d bytes arrived with %d, or other ones", n, wc.ByteLen)
		}
		b.check.Count++
	}
}
