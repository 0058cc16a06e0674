package session

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"testing"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/plan"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/wire"
	"github.com/pureverbs/pureverbs/ibv"
)

// TestFrame looks at the headers of what is sent.
func TestFrame(t *testing.T) {
	p := &plan.Plan{Options: plan.Options{Transport: wire.RawEth, Load: plan.Load{Size: 118},
		Queues: plan.Queues{QPs: 2}, Link: plan.Link{TClass: 7}, Frames: plan.Frames{
			Connects: true, Own: [6]byte{2, 1}, Peer: [6]byte{2, 2}}}}
	be := binary.BigEndian
	b := make([]byte, 118)
	frame(b, p, 0, 0)
	if [6]byte(b) != p.Frames.Peer || [6]byte(b[6:]) != p.Frames.Own || be.Uint16(b[12:]) != 100 || b[14] != 0 {
		t.Errorf("without IP: % x", b[:20])
	}
	p.Frames.EtherType = 0x88b5
	if frame(b, p, 0, 0); be.Uint16(b[12:]) != 0x88b5 {
		t.Errorf("with a type: % x", b[:20])
	}
	p.Frames.EtherType = 0
	p.Frames.Server, p.Frames.Client = netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
	p.Frames.ServerPort, p.Frames.ClientPort = 5000, 5001
	frame(b, p, 0, 0)
	var sum uint32
	for i := 14; i < 34; i += 2 {
		sum += uint32(be.Uint16(b[i:]))
	}
	if sum = sum&0xffff + sum>>16; sum != 0xffff {
		t.Errorf("the header's sum is %#x, want 0xffff", sum)
	}
	if be.Uint16(b[12:]) != 0x0800 || be.Uint16(b[16:]) != 100 || b[15] != 7 || b[23] != 17 ||
		[4]byte(b[26:]) != [4]byte{10, 0, 0, 2} || [4]byte(b[30:]) != [4]byte{10, 0, 0, 1} ||
		be.Uint16(b[34:]) != 5001 || be.Uint16(b[36:]) != 5000 || be.Uint16(b[38:]) != 80 {
		t.Errorf("with UDP: % x", b[:42])
	}
	p.Frames.Connects = false
	if frame(b, p, 0, 0); [4]byte(b[26:]) != [4]byte{10, 0, 0, 1} || be.Uint16(b[34:]) != 5000 {
		t.Errorf("of the server: % x", b[:42])
	}
	if len(rule(p, 0)) != 3 {
		t.Errorf("rule %v", rule(p, 0))
	}

	f := &p.Frames
	f.TCP, f.VLAN, f.Priority, f.HopLimit, f.Flows, f.Burst = true, true, 5, 9, 3, 2
	p.Link.FlowLabels = []uint32{77}
	f.Server, f.Client = netip.MustParseAddr("fd00::1"), netip.MustParseAddr("fd00::2")
	frame(b, p, 1, 3) // the second flow of the second queue pair
	if be.Uint16(b[12:]) != 0x8100 || be.Uint16(b[14:]) != 5<<13|1 || be.Uint16(b[16:]) != 0x86dd ||
		be.Uint32(b[18:]) != 6<<28|7<<20|77 || be.Uint16(b[22:]) != 100-4-40 || b[24] != 6 || b[25] != 9 ||
		[16]byte(b[26:]) != f.Server.As16() || [16]byte(b[42:]) != f.Client.As16() ||
		be.Uint16(b[58:]) != 5000+3+1 || be.Uint16(b[60:]) != 5001+3+1 || b[70] != 5<<4 {
		t.Errorf("with a tag, IPv6 and TCP: % x", b[:78])
	}
	if tcp, ok := rule(p, 4)[2].(ibv.FlowTCP); !ok || tcp.Value != (ibv.FlowPorts{Dst: 5004, Src: 5005}) {
		t.Errorf("rule %v", rule(p, 4))
	}
	f.Priority = plan.EachPriority
	if n := f.Kinds(); n != 48 {
		t.Errorf("%d kinds of frames, want 3 flows x 2 x 8 priorities", n)
	}
	seen := map[string]bool{}
	for k := range 48 {
		flow, priority := f.Kind(k)
		seen[fmt.Sprint(flow, priority)] = true
		if flow != k/2%3 {
			t.Errorf("frame %d is of flow %d", k, flow)
		}
	}
	if len(seen) != 24 {
		t.Errorf("the frames have %d pairs of flow and priority, want 24", len(seen))
	}
}
