package rdma

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/internal/attempts"
	"github.com/pureverbs/pureverbs/internal/foreign"
	"github.com/pureverbs/pureverbs/rdma/internal/admit"
	"github.com/pureverbs/pureverbs/rdma/internal/datagram"
	"github.com/pureverbs/pureverbs/rdma/internal/inmem"
	"github.com/pureverbs/pureverbs/rdma/internal/link"
	"github.com/pureverbs/pureverbs/rdma/internal/nic"
	"github.com/pureverbs/pureverbs/rdma/internal/pace"
	"github.com/pureverbs/pureverbs/rdma/internal/packet"
	"github.com/pureverbs/pureverbs/rdma/internal/pool"
	"github.com/pureverbs/pureverbs/rdma/internal/wire"
)

// TestReference compares the defaults and limits with those in the comments and pages for users.
func TestReference(t *testing.T) {
	thousands := func(n int) string { return fmt.Sprintf("%d,%03d", n/1000, n%1000) }
	e, err := newMemoryEngine(nil, inmem.New())
	ok(t, err)
	defer e.Close()
	contains(t, "../rdma/options.go",
		fmt.Sprintf("0 means %d MiB; %d GiB - 1 is the most", defaultMaxMessage>>20, (link.LongestMessage+1)>>30),
		fmt.Sprintf("acknowledge a frame. 0 means %d s,", defaultKeepAlive/time.Second),
		fmt.Sprintf("the program's own, at most %d bytes", wire.AppDataLen),
		fmt.Sprintf("0 means %d s, and %d s for a handshake", dialTime/time.Second, handshakeTime/time.Second),
		fmt.Sprintf("0 means %d; %d is the most", defaultBacklog, maxBacklog),
		fmt.Sprintf("1 to %d, or None for never. 0 means %d.", maxRetry, maxRetry),
	)
	contains(t, "../rdma/engine.go",
		fmt.Sprintf("payload of a frame, %d KiB to %d MiB, in bytes, a multiple of 64", wire.MinBlock>>10,
			wire.MaxBlock>>20),
		fmt.Sprintf("0 means %d KiB, and %d KiB for streams while half of Memory has room for them (%d by default)",
			link.DefaultBlock>>10, link.LargeBlock>>10, e.e.Shards[0].Large.Options.MaxConns),
		fmt.Sprintf("0 means %d MiB; the least is %d MiB for each poller", defaultMemory>>20, link.SlabSize>>20),
		fmt.Sprintf("0 means %d µs, None never", defaultSpin/time.Microsecond),
		fmt.Sprintf("most connections; a PacketConn counts as 5; 0 means %d", defaultMaxConns),
		fmt.Sprintf("up to %d, each with its CQ", maxPollers),
	)
	contains(t, "rdma.md",
		fmt.Sprintf("up to %d handlers at a time, with at most %d MiB", callsMost, requestBytes>>20),
		fmt.Sprintf("While %d datagrams are unread", datagram.Recvs),
		fmt.Sprintf("nothing has come from its address for %d seconds", datagram.AskAfter),
		fmt.Sprintf("at most %d. Each remembers %s peers", datagram.Sockets, thousands(datagram.PeersMost)),
		fmt.Sprintf("by default the first %d streams", e.e.Shards[0].Large.Options.MaxConns),
		fmt.Sprintf("less than %d MiB for each poller", link.LargeLeast>>20),
		fmt.Sprintf("starts with %d frames", link.StartWindow),
		fmt.Sprintf("to at most %d (%d with %d KiB blocks)", link.MostSmall.Window, link.MostLarge.Window,
			link.LargeBlock>>10),
		fmt.Sprintf("%d bytes to %d MiB", pool.Smallest, pool.Largest>>20),
		fmt.Sprintf("at first %d, or %d with leases", link.BaseBlocks(false)+link.OwnBlocks,
			link.BaseBlocks(true)+link.OwnBlocks),
		fmt.Sprintf("may take %d s to be noticed", pace.SilentBeats+pace.StuckBeats),
		fmt.Sprintf("about %s times `KeepAlive`", []string{4: "four", 5: "five"}[1+pace.StuckAfter]),
		fmt.Sprintf("at most %d reads and atomics", nic.ReadsMost),
		fmt.Sprintf("at most %s queue pairs", thousands(handshakesMost)),
		fmt.Sprintf("ends after %d s. If other peers wait, it ends after %.1f s", handshakeTime/time.Second,
			admit.Grace.Seconds()),
		fmt.Sprintf("also tries TCP when RDMA has failed, or after %d ms", attempts.Delay/time.Millisecond),
		fmt.Sprintf("After %s such calls", thousands(foreign.Most)),
		fmt.Sprintf("the other family as well after %d ms", attempts.Delay/time.Millisecond),
	)
	contains(t, "rdma-protocol.md",
		fmt.Sprintf("upper half of the immediate is %#x", datagram.State(0)>>16),
		fmt.Sprintf("announce the requester in %d bytes: `%s`", datagram.AnnounceLen, datagram.AnnounceMagic),
		fmt.Sprintf("does not come within %d s", packet.Again/time.Second),
		fmt.Sprintf("for %d s, or the last reply is %d s old", datagram.AskAfter, datagram.AskAlways),
	)
	contains(t, "guide/lending-memory.md",
		fmt.Sprintf("| `MaxBytes`: bytes that the peer has at a time | %d GiB |", defaultLeaseBytes>>30),
		fmt.Sprintf("| `MaxLeases`: leases that the peer has at a time | %d | %d |", defaultLeases, leasesMost),
		fmt.Sprintf("| `MaxDuration`: duration | %.0f hour | %.0f days |", defaultLeaseDuration.Hours(),
			durationMost.Hours()/24),
		fmt.Sprintf("| `Grace`: time to return the memory | %d s |", defaultGrace/time.Second),
	)
}

// contains reports texts that a page, or the comments of a file, lack. Lines may be broken anywhere.
func contains(t *testing.T, page string, texts ...string) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "docs", filepath.FromSlash(page)))
	ok(t, err)
	have := strings.Join(strings.Fields(strings.ReplaceAll(string(b), "\t// ", "")), " ")
	for _, s := range texts {
		if !strings.Contains(have, s) {
			t.Errorf("docs/%s does not contain %q", page, s)
		}
	}
}
