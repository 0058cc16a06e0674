package selftest

import (
	"fmt"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/mlx5dv"
)

// scatterStep is step 4.
func scatterStep(s *stage) {
	for _, path := range paths {
		for _, entry := range []int{64, 128} {
			for _, c := range []struct {
				name  string
				flags mlx5dv.QPCreateFlags
			}{{"default", 0}, {"payload kept out", mlx5dv.DisableScatterToCQE},
				{"also payload of reads", mlx5dv.AllowScatterToCQE}} {
				for _, sges := range []int{0, 1, 3} {
					queue := "RQ"
					if sges > 0 {
						queue = fmt.Sprintf("SRQ of %d SGEs", sges)
					}
					s.check(fmt.Sprintf("%d-byte completions, %s, %s, %v", entry, c.name, queue, path),
						func(b *box) { scatter(b, path, entry, c.flags, sges) })
				}
			}
			for _, sges := range []int{0, 3} {
				s.check(fmt.Sprintf("null MR, %d-byte completions, SRQ %v, %v", entry, sges > 0, path),
					func(b *box) { nullMR(b, path, entry, sges) })
			}
		}
	}
}

// scatter sends and reads short messages, which may arrive in the completion, into lists of SGEs.
func scatter(b *box, path ibv.DataPath, entry int, flags mlx5dv.QPCreateFlags, srqSGEs int) {
	const clean = 0x5a
	x, y, q := b.pair(pairOptions{path: path, memory: 4096, flags: flags, srqSGEs: srqSGEs,
		cq: &mlx5dv.CQOptions{EntrySize: entry}, qp: ibv.QPOptions{MaxRecvSGE: 3, MaxSendSGE: 3}})
	lists := max(srqSGEs, 1)
	if srqSGEs == 0 {
		lists = 3
	}
	for n := 1; n <= 160; n++ {
		pieces := min(1+n%lists, n)
		fill(x.mr.Bytes()[:n], n)
		dst := y.mr.Bytes()
		set(dst[:1024], clean)
		sges, where := y.split(n, pieces)
		b.recv(q, uint64(n), sges...)
		x.post(ibv.SendWR{ID: uint64(n), Opcode: ibv.OpSend, Flags: ibv.Signaled, SGEs: []ibv.SGE{x.mr.SGE(0, n)}})
		x.good(uint64(n))
		if wc := y.good(uint64(n)); wc.ByteLen != uint32(n) {
			b.fail("%d bytes arrived as %d", n, wc.ByteLen)
		}
		checkPieces(b, fmt.Sprintf("%d bytes in %d pieces", n, pieces), dst[:1024], where, x.mr.Bytes()[:n], clean)

		ours := x.mr.Bytes()[1024:2048]
		set(ours, clean)
		fill(dst[2048:][:n], n+1)
		sges, where = x.split(n, pieces)
		for i := range sges {
			sges[i].Addr += 1024
		}
		x.post(ibv.SendWR{ID: 1000, Opcode: ibv.OpRead, Flags: ibv.Signaled, SGEs: sges,
			Remote: y.mr.Remote().At(2048)})
		x.good(1000)
		checkPieces(b, fmt.Sprintf("read of %d bytes in %d pieces", n, pieces), ours, where, dst[2048:][:n], clean)
		b.check.Count += 2
	}
}

// split divides n bytes into pieces with gaps between them. where has the offset and the length of each.
func (s *side) split(n, pieces int) (sges []ibv.SGE, where [][2]int) {
	at := 16
	for i := range pieces {
		length := n / pieces
		if i == pieces-1 {
			length = n - n/pieces*(pieces-1)
		}
		sges, where = append(sges, s.mr.SGE(at, length)), append(where, [2]int{at, length})
		at += length + 24
	}
	return sges, where
}

// checkPieces compares the pieces with the message, and all else with clean.
func checkPieces(b *box, what string, mem []byte, where [][2]int, message []byte, clean byte) {
	end := 0
	for _, w := range where {
		b.all(what, mem[end:w[0]], clean)
		if string(mem[w[0]:][:w[1]]) != string(message[:w[1]]) {
			b.fail("%s: have % x, want % x", what, mem[w[0]:][:w[1]], message[:w[1]])
		}
		message, end = message[w[1]:], w[0]+w[1]
	}
	b.all(what, mem[end:], clean)
}

// nullMR receives into a null MR, whose SGEs name memory that is in use: it stays as it is.
func nullMR(b *box, path ibv.DataPath, entry, srqSGEs int) {
	const clean = 0x5a
	o := pairOptions{path: path, memory: 4096, srqSGEs: srqSGEs,
		cq: &mlx5dv.CQOptions{EntrySize: entry}, qp: ibv.QPOptions{MaxRecvSGE: 3}}
	if srqSGEs > 0 && path == ibv.DataPathOps {
		// libmlx5 up to v65 at least copies into what an SRQ's SGE names, whatever its key (mlx5_copy_to_recv_srq).
		o.flags = mlx5dv.DisableScatterToCQE
		b.note("payload kept out of completions: libmlx5 ignores the key in an SRQ")
	}
	x, y, q := b.pair(o)
	null := own(y.pd.AllocNullMR())(b)
	dst := y.mr.Bytes()
	set(dst, clean)
	for _, n := range []int{1, 8, 24, 32, 33, 48, 64, 65, 200} {
		fill(x.mr.Bytes()[:n], n)
		sge := y.mr.SGE(64, n)
		sge.LKey = null.LKey()
		b.recv(q, uint64(n), sge)
		x.post(ibv.SendWR{ID: uint64(n), Opcode: ibv.OpSend, Flags: ibv.Signaled, SGEs: []ibv.SGE{x.mr.SGE(0, n)}})
		x.good(uint64(n))
		y.good(uint64(n))
		b.all(fmt.Sprintf("%d bytes into a null MR", n), dst, clean)
		b.check.Count++
	}
}
