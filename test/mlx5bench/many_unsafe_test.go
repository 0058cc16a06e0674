//go:build linux && amd64

package mlx5bench

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"math/bits"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/abi"
)

// The measurements of testdata/many.c, made with ibv.

const manyDepth = 16

// many is a CQ of many QPs, each of which posts one write in turn.
type many struct {
	cq    *ibv.CQ
	dcq   abi.MLX5DVCQ
	dqp   abi.MLX5DVQP // of the QP that was created last
	turns [2][]*ibv.QP // as they were created, and shuffled
	nums  [2][]uint32
	wrs   []ibv.SendWR
	lap   uint64
	pi    uint32
}

func newMany(device string, gid, n int) (*many, error) {
	dev, err := ibv.Open(device)
	if err != nil {
		return nil, err
	}
	pd, err := dev.AllocPD()
	if err != nil {
		return nil, err
	}
	mr, err := pd.AllocMR(pageSize, ibv.LocalWrite|ibv.RemoteWrite, nil)
	if err != nil {
		return nil, err
	}
	m := &many{wrs: []ibv.SendWR{{ID: 15, Opcode: ibv.OpWrite, Flags: ibv.Signaled, SGEs: []ibv.SGE{mr.SGE(0, payload)},
		Remote: mr.Remote().At(2048)}}}
	m.cq, err = dev.CreateCQ(n-1, &ibv.CQOptions{NoEvents: true, DataPath: ibv.DataPathDirect})
	if err != nil {
		return nil, err
	}
	pages := map[uintptr]bool{}
	for range n {
		qp, err := pd.CreateQP(m.cq, m.cq, &ibv.QPOptions{MaxSendWR: manyDepth, MaxRecvWR: manyDepth})
		if err != nil {
			return nil, err
		}
		self, err := qp.Endpoint(1, gid)
		if err != nil {
			return nil, err
		}
		if err := qp.Connect(self, nil); err != nil {
			return nil, err
		}
		if err := rings(m.cq, qp, &m.dcq, &m.dqp); err != nil {
			return nil, err
		}
		pages[m.dqp.BF.Reg&^(pageSize-1)] = true
		m.turns[0], m.nums[0] = append(m.turns[0], qp), append(m.nums[0], qp.Num())
	}
	for page := range pages {
		const anon, prot = syscall.MAP_PRIVATE | syscall.MAP_ANONYMOUS, syscall.PROT_READ | syscall.PROT_WRITE
		if _, _, errno := syscall.Syscall6(syscall.SYS_MMAP, page, pageSize, prot, anon|syscall.MAP_FIXED, ^uintptr(0),
			0); errno != 0 {
			return nil, errno
		}
	}
	m.turns[1], m.nums[1] = slices.Clone(m.turns[0]), slices.Clone(m.nums[0])
	x := uint64(1)
	for i := n - 1; i > 0; i-- {
		x = x*6364136223846793005 + 1442695040888963407
		k := x >> 33 % uint64(i+1)
		m.turns[1][i], m.turns[1][k] = m.turns[1][k], m.turns[1][i]
		m.nums[1][i], m.nums[1][k] = m.nums[1][k], m.nums[1][i]
	}
	return m, nil
}

// complete writes a completion for each QP.
func (m *many) complete(nums []uint32) {
	for _, num := range nums {
		const opWrite = 0x08
		*at[uint64](m.dcq.Buf + uintptr(m.pi%m.dcq.CQECnt+1)*uintptr(m.dcq.CQESize) - 8) = bits.ReverseBytes64(
			opWrite<<56 | uint64(num)<<32 | m.lap&0xffff<<16 | uint64(m.pi/m.dcq.CQECnt&1))
		m.pi++
	}
	m.lap++
}

func postEach(turn []*ibv.QP, wrs []ibv.SendWR) error {
	for _, qp := range turn {
		if _, err := qp.PostSend(wrs); err != nil {
			return err
		}
	}
	return nil
}

// serve answers each line "WHO LAPS" in the same way as many.c.
func (m *many) serve(in io.Reader, out io.Writer) error {
	wcs := make([]ibv.WC, batch)
	for lines := bufio.NewScanner(in); lines.Scan(); {
		var who string
		var laps int
		if _, err := fmt.Sscan(lines.Text(), &who, &laps); err != nil {
			return err
		}
		for order, turn := range m.turns {
			best := [3]float64{math.Inf(1), math.Inf(1), math.Inf(1)}
			for i := range 2 * laps {
				start := time.Now()
				if err := postEach(turn, m.wrs); err != nil {
					return err
				}
				best[0] = min(best[0], float64(time.Since(start).Nanoseconds()))
				m.complete(m.nums[order])
				kind, n := 1, 1
				if i%2 == 1 {
					kind, n = 2, batch
				}
				start = time.Now()
				if err := polls(m.cq, wcs[:n], len(turn)); err != nil {
					return err
				}
				best[kind] = min(best[kind], float64(time.Since(start).Nanoseconds()))
			}
			for k, name := range []string{"post1", "poll1", "poll16"} {
				fmt.Fprintf(out, "%s%s %.3f\n", name, []string{"", "_shuffled"}[order], best[k]/float64(len(turn)))
			}
		}
		fmt.Fprintln(out, "end")
	}
	return nil
}

func runMany(device string, gid, qps int) error {
	m, err := newMany(device, gid, qps)
	if err != nil {
		return err
	}
	return m.serve(os.Stdin, os.Stdout)
}
