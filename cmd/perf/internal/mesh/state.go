package mesh

import (
	"context"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/agent"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/roster"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/schedule"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/starve"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/wire"
)

// Config describes a mesh.
type Config struct {
	Hosts    []Host       // standing agents, which are dialed
	Listener net.Listener // instead: where agents dial. It is closed
	Launcher roster.Place // what is known of those that dial, such as Slurm's list
	Expect   int          // how many there are; 0: nobody says
	Launched <-chan error // gets nil when they are launched, and the error of what launches them; may be nil

	Order     schedule.Order // of the tests, and which run at the same time
	Rounds    int            // above 0: pairs of each host
	Until     float64        // above 0: more rounds follow until so small a loss would show
	Rails     Rails
	Reach     time.Duration // for a message, before anything is measured; 0: nobody looks
	Confirm   bool          // suspects are measured again
	Bandwidth wire.Params
	Latency   wire.Params
	Token     agent.Token
	Timeout   time.Duration
	Patience  time.Duration // for hosts that do not come
	Beat      time.Duration // between heartbeats; a host is lost after three
	Stall     time.Duration // after which a host or a message stood still; 0: nobody looks
	CPUWait   float64       // share of the time of a test that it may wait for CPUs; 0: any
	Strict    bool          // without one host, no mesh
	Outliers  Outliers
	Program   string // this one, with its version

	// May be nil, and are never called twice at a time.
	Awaited  func(said string)                   // now and then while hosts are awaited
	Begun    func(pass string, hosts, pairs int) // of hosts; the pass that measures all has no name
	Start    func(from, to string)
	Done     func([]PairResult) // of two hosts
	Dark     func(DarkNIC)
	Split    func(Split)
	Lost     func(LostHost) // of those that are missing before the first pair
	Stranger func(from net.Addr, why error)
}

// coordinator is a mesh at work.
type coordinator struct {
	Config
	ctx   context.Context // ends when the mesh is told to end
	link  context.Context // ends when the mesh is over
	begun chan struct{}
	watch sync.WaitGroup

	meeting atomic.Int32     // connections whose ends do not know each other yet
	patient bool             // they were waited for
	reached map[string]error // how far some came, by address
	roster  *roster.Roster
	hosts   []*member
	doubts  []doubted
	left    error // why agents left, if it is not their fault
	own     watch
	res     *Result

	homes   map[string]int  // of addresses: how many hosts have each
	present []int           // the hosts that came, by their place among all
	only    map[[2]end]bool // what is measured in this pass; nil: all
	dark    *darkness
	reaches int // passes that found out who reaches whom
	repeats repeats
	fault   atomic.Pointer[ownError] // the first that kept this process from taking connections; nil: none did
}

// member is a host of the mesh; its context ends with its agent.
type member struct {
	Host
	agent  *agent.Remote // nil: it did not come
	ctx    context.Context
	lose   context.CancelCauseFunc
	nics   nicList // those that are measured
	lostAt time.Time
}

// arrival is an agent that dialed, or a stranger.
type arrival struct {
	agent *agent.Remote
	from  net.Addr
	err   error
}

// doubted is an agent whose launcher has another number of processes than that of those that came before. It waits, as
// one that was admitted: they may be those that belong to another run.
type doubted struct {
	agent *agent.Remote
	why   *roster.RunError
}

// watch notes when this process itself stands still: then it hears of no host.
type watch struct {
	mu   sync.Mutex
	last time.Time
	gaps []agent.Silence
}

// darkness finds out who reaches whom. NICs of one side reach each other, if not each one each other one. A NIC that is
// alone on its side while others have company is dark; of two sides with several NICs nobody knows which is right: the
// fabric is split.
type darkness struct {
	mu     sync.Mutex
	sides  map[end]*side
	failed map[end]map[end]bool // those of its side with which a NIC failed since a test of it went well
	told   map[end]bool         // its failures have been looked into
	doubt  bool                 // a NIC fails with those that it reached, or two sides with each other
	hasty  bool                 // pairs of sides that seem to be apart are left for open
	asked  map[[2]end]bool      // by open, in this pass
	dark   map[end]string       // why
	closed map[end]bool         // of these: its tests cannot begin, so that nothing is known of the NIC
}

// side is a set of NICs.
type side struct {
	nics  []end
	fails map[*side]*failures
}

// failures are those of two sides with each other: no test of theirs went well.
type failures struct {
	pairs map[[2]end]bool
	apart map[end]bool // NICs of some of these pairs, which have no NIC in common
	why   string
	met   bool // a test began, and failed
	final bool // all pairs that would have to be tried were
}

// repeats bounds how many tests are repeated: on hosts that are busy all the time, it would not help.
type repeats struct{ tests, again atomic.Int64 }

const (
	mostStrange = 2048        // connections that have not proved themselves
	settles     = time.Second // between the ends of things that end for one reason
	awaits      = time.Second // between words on the hosts that are awaited: they take time where there are many
)

// rail is two NICs, one of each host, by their numbers; -1: nobody knows, as the host is not there.
type rail struct{ from, to int }

// nic is a NIC of a host that is there.
type nic agent.NIC

// nicList has the NICs of a host in the order of the rails.
type nicList []nic

// meets reports whether a message can go from one NIC to another.
func (n nic) meets(o nic) bool { return n.Link == o.Link || n.Link == "" || o.Link == "" }

func (l nicList) index(name string) int {
	return slices.IndexFunc(l, func(n nic) bool { return n.Name == name })
}

// name returns that of a NIC, which may not be known.
func (l nicList) name(i int) string {
	if i < 0 || i >= len(l) {
		return ""
	}
	return l[i].Name
}

// ends has how the CPUs of the two ends of a test were.
type ends [2]*starve.Waits
