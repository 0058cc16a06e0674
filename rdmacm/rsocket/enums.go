package rsocket

import (
	"strconv"
	"strings"
)

// Flags modify a single call.
type Flags int

// Flags that rsockets support.
const (
	MsgPeek     Flags = 0x02 // MSG_PEEK: leave the received bytes in the queue
	MsgDontWait Flags = 0x40 // MSG_DONTWAIT: do not block, even on a blocking socket
)

// Events are the events that a Poller waits for and reports.
type Events int16

// Events. PollErr, PollHup and PollInvalid are always reported.
const (
	PollIn      Events = 0x001 // POLLIN: data to receive, its end, or a connection to accept
	PollOut     Events = 0x004 // POLLOUT: room to send; connected, or the connection failed
	PollErr     Events = 0x008 // POLLERR: the connection failed
	PollHup     Events = 0x010 // POLLHUP: the connection has ended
	PollInvalid Events = 0x020 // POLLNVAL: the socket was closed
)

// String lists the events.
func (e Events) String() string {
	if e == 0 {
		return "none"
	}
	var s []string
	for _, n := range []struct {
		bit  Events
		name string
	}{{PollIn, "in"}, {PollOut, "out"}, {PollErr, "err"}, {PollHup, "hup"}, {PollInvalid, "invalid"}} {
		if e&n.bit != 0 {
			s = append(s, n.name)
			e &^= n.bit
		}
	}
	if e != 0 {
		s = append(s, "Events(0x"+strconv.FormatUint(uint64(uint16(e)), 16)+")")
	}
	return strings.Join(s, "|")
}

// Level is the protocol level of an option.
type Level int

// Levels.
const (
	LevelSocket Level = 1       // SOL_SOCKET
	LevelTCP    Level = 6       // IPPROTO_TCP
	LevelIPv6   Level = 41      // IPPROTO_IPV6
	LevelRDMA   Level = 0x10000 // SOL_RDMA
)

// Option is an option of a level.
type Option int

// Options that rsockets support, by level. Those of LevelRDMA must be set before the socket
// connects or listens.
const (
	OptReuseAddr Option = 2  // SO_REUSEADDR
	OptError     Option = 4  // SO_ERROR
	OptSendBuf   Option = 7  // SO_SNDBUF, bytes
	OptRecvBuf   Option = 8  // SO_RCVBUF, bytes
	OptKeepAlive Option = 9  // SO_KEEPALIVE
	OptOOBInline Option = 10 // SO_OOBINLINE
	OptLinger    Option = 13 // SO_LINGER, struct linger

	OptNoDelay  Option = 1 // TCP_NODELAY
	OptMaxSeg   Option = 2 // TCP_MAXSEG
	OptKeepIdle Option = 4 // TCP_KEEPIDLE, seconds

	OptV6Only Option = 26 // IPV6_V6ONLY

	OptSendQueue Option = 0 // RDMA_SQSIZE, work requests
	OptRecvQueue Option = 1 // RDMA_RQSIZE, work requests
	OptInline    Option = 2 // RDMA_INLINE, bytes
	OptIOMaps    Option = 3 // RDMA_IOMAPSIZE, mappings that the peer may have
	OptRoute     Option = 4 // RDMA_ROUTE, struct ibv_path_data
)

// Commands of Fcntl.
const (
	FGetFD = 1 // F_GETFD
	FSetFD = 2 // F_SETFD
	FGetFL = 3 // F_GETFL
	FSetFL = 4 // F_SETFL
)

const nonblock = 0x800 // O_NONBLOCK

// Prot has the operations that the peer may do with mapped memory.
type Prot int

// Protections.
const (
	ProtNone  Prot = 0 // PROT_NONE: only this side accesses it
	ProtWrite Prot = 2 // PROT_WRITE: the peer may write there
)
