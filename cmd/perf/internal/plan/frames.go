package plan

import (
	"net/netip"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/wire"
)

// Frames is what Ethernet frames say (RawEth). There is no exchange: both ends are given all of it.
type Frames struct {
	Connects   bool // this end begins: the client, which has no server to connect to
	Own, Peer  [6]byte
	EtherType  uint16 // 0: IPv4's with addresses, else the length as of 802.3
	Server     netip.Addr
	Client     netip.Addr
	ServerPort uint16 // UDP, both or none
	ClientPort uint16
}

// IP reports whether the frames have headers of IPv4.
func (f *Frames) IP() bool { return f.Server.IsValid() }

// UDP reports whether they have headers of UDP.
func (f *Frames) UDP() bool { return f.ServerPort != 0 }

const (
	leastFrame  = 64
	frameCRC    = 4  // counted among a frame's bytes, written by the adapter
	frameAround = 18 // what a frame has around its payload
)

// Posted returns how many bytes of a message of a size are posted.
func (p *Plan) Posted(size uint64) uint64 {
	if p.Transport == wire.RawEth {
		return size - frameCRC
	}
	return size
}

// FramePayload returns how many bytes of a frame are not Ethernet's.
func FramePayload(size uint64) int { return int(size) - frameAround }

// checkFrames looks at what only frames have, and at what they do not have.
func (p *Plan) checkFrames(c *complaints) {
	f := &p.Frames
	if p.Transport != wire.RawEth {
		if *f != (Frames{}) {
			c.add("addresses of frames (-B -E -J -j -K -k -Y --client): only raw Ethernet (-c RawEth) has them")
		}
		return
	}
	switch {
	case p.Verb != wire.Send:
		c.add("connection type (-c) RawEth: it can only send; use RC")
	case p.Host != "":
		c.add("server %q: raw Ethernet (-c RawEth) connects to nobody; name the peer by its address (-E) and give "+
			"--client", p.Host)
	case p.RDMACM:
	case p.Bidirectional:
		c.add("bidirectional (-b): the ends of raw Ethernet (-c RawEth) cannot tell each other what they sent")
	case p.QPs > 1:
		c.add("queue pairs (-q) %d: raw Ethernet (-c RawEth) steers its frames to one", p.QPs)
	case p.All:
		c.add("sizes (-a, --sizes): the ends of raw Ethernet (-c RawEth) cannot meet between them; give one (-s)")
	case p.UseSRQ:
		c.add("shared receive queue (--use-srq): raw Ethernet (-c RawEth) has none")
	case p.GIDIndex != Auto:
		c.add("gid index (-x) %d: raw Ethernet (-c RawEth) has no GIDs", p.GIDIndex)
	case p.Inline > 0:
		c.add("inline size (-I) %d: raw Ethernet (-c RawEth) has none", p.Inline)
	}
	if p.Size < leastFrame {
		c.add("size (-s) %d < %d, the smallest Ethernet frame", p.Size, leastFrame)
	}
	if f.Own == ([6]byte{}) {
		c.add("own address (-B): raw Ethernet (-c RawEth) needs it, as e4:1d:2d:00:00:01")
	}
	if f.Peer == ([6]byte{}) && (p.Client() || !p.Bandwidth()) {
		c.add("address of the peer (-E): raw Ethernet (-c RawEth) needs it, as e4:1d:2d:00:00:02")
	}
	if f.Server.IsValid() != f.Client.IsValid() {
		c.add("IP addresses (-J, -j): give both or none")
	}
	if f.Server.IsValid() && !f.Server.Is4() || f.Client.IsValid() && !f.Client.Is4() {
		c.add("IP addresses (-J %v, -j %v): only IPv4's are there", f.Server, f.Client)
	}
	if (f.ServerPort == 0) != (f.ClientPort == 0) {
		c.add("UDP ports (-K, -k): give both or none")
	} else if f.UDP() && !f.IP() {
		c.add("UDP ports (-K, -k): give the IP addresses, too (-J, -j)")
	}
}
