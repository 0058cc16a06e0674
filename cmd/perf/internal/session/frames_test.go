package session

import (
	"encoding/binary"
	"net/netip"
	"testing"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/plan"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/wire"
)

// TestFrame looks at the headers of what is sent.
func TestFrame(t *testing.T) {
	p := &plan.Plan{Options: plan.Options{Transport: wire.RawEth, Size: 118, TClass: 7, Frames: plan.Frames{
		Connects: true, Own: [6]byte{2, 1}, Peer: [6]byte{2, 2}}}}
	be := binary.BigEndian
	b := make([]byte, 118)
	frame(b, p)
	if [6]byte(b) != p.Frames.Peer || [6]byte(b[6:]) != p.Frames.Own || be.Uint16(b[12:]) != 100 || b[14] != 0 {
		t.Errorf("without IP: % x", b[:20])
	}
	p.Frames.EtherType = 0x88b5
	if frame(b, p); be.Uint16(b[12:]) != 0x88b5 {
		t.Errorf("with a type: % x", b[:20])
	}
	p.Frames.EtherType = 0
	p.Frames.Server, p.Frames.Client = netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
	p.Frames.ServerPort, p.Frames.ClientPort = 5000, 5001
	frame(b, p)
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
	if frame(b, p); [4]byte(b[26:]) != [4]byte{10, 0, 0, 1} || be.Uint16(b[34:]) != 5000 {
		t.Errorf("of the server: % x", b[:42])
	}
	if len(rule(p)) != 3 {
		t.Errorf("rule %v", rule(p))
	}
}
