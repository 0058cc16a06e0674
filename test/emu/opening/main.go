//go:build linux

// Opening opens a device again and again, makes QPs, and prints what that took, one figure a line: NAME VALUE.
//
//	PUREVERBS_CONTROL=native emu -- opening -opens 100 -qps 1000
//
// Calls are system calls that reached the emulator. They and mappings are the same on each run.
package main

import (
	"bufio"
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/pureverbs/pureverbs/ibv"
)

func main() {
	opens := flag.Int("opens", 0, "`times` to open the device after the first")
	qps := flag.Int("qps", 0, "`number` of QPs at the same time")
	touch := flag.Bool("touch", false, "use every place of their rings")
	idle := flag.Bool("idle", false, "end at once")
	first := flag.Bool("first", false, "print the time of the first open, and the memory after it")
	flag.Parse()
	if *idle {
		return
	}
	if err := run(*opens, *qps, *touch, *first); err != nil {
		fmt.Fprintln(os.Stderr, "opening:", err)
		os.Exit(1)
	}
}

func run(opens, qps int, touch, first bool) error {
	t := time.Now()
	if err := once(); err != nil {
		return err
	}
	if first { // else it makes no further calls, for strace
		fmt.Println("first_us", time.Since(t).Microseconds())
		fmt.Println("rss_kb", status("VmRSS:"))
	}
	if opens == 0 && qps == 0 {
		return nil
	}
	var err error
	calls := func() uint64 {
		n, bad := stats()
		err = errors.Join(err, bad)
		return n
	}
	asking := calls()
	asking = calls() - asking // those of calls itself
	if opens > 0 {
		before := calls()
		t = time.Now()
		own := cpu()
		for range opens {
			if err := once(); err != nil {
				return err
			}
		}
		fmt.Println("open_us", time.Since(t).Microseconds()/int64(opens))
		fmt.Println("open_cpu_us", (cpu()-own).Microseconds()/int64(opens))
		fmt.Println("open_calls", float64(calls()-before-asking)/float64(opens))
	}
	if qps > 0 {
		err = errors.Join(err, many(qps, touch, func() uint64 { return calls() - asking }))
	}
	return err
}

// stats asks the emulator how many calls it has answered. Package emutest would link the emulator, and package net a
// resolver: their pages would count as this program's.
func stats() (calls uint64, err error) {
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	f := os.NewFile(uintptr(fd), "emulator")
	defer f.Close()
	if err := syscall.Connect(fd, &syscall.SockaddrUnix{Name: os.Getenv("EMU_CONTROL")}); err != nil {
		return 0, err
	}
	if _, err := io.WriteString(f, "stats\n"); err != nil {
		return 0, err
	}
	answer, err := bufio.NewReader(f).ReadString('\n')
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(answer, `"calls":`)
	_, err = fmt.Sscan(rest, &calls)
	return calls, err
}

// once opens a device, makes one object of each kind, and closes all.
func once() error {
	var all []io.Closer
	keep := func(c io.Closer, err error) error {
		if err == nil {
			all = append(all, c)
		}
		return err
	}
	d, err := ibv.Open("")
	if keep(d, err) != nil {
		return err
	}
	pd, err := d.AllocPD()
	if err = keep(pd, err); err == nil {
		var cq *ibv.CQ
		cq, err = d.CreateCQ(256, nil)
		if err = keep(cq, err); err == nil {
			qp, e := pd.CreateQP(cq, cq, nil)
			mr, f := pd.AllocMR(4096, ibv.LocalWrite, nil)
			err = errors.Join(keep(qp, e), keep(mr, f))
		}
	}
	for _, c := range slices.Backward(all) {
		err = errors.Join(err, c.Close())
	}
	return err
}

// many makes QPs.
func many(n int, touch bool, calls func() uint64) error {
	d, err := ibv.Open("")
	if err != nil {
		return err
	}
	pd, err := d.AllocPD()
	if err != nil {
		return err
	}
	cq, err := d.CreateCQ(1024, nil)
	if err != nil {
		return err
	}
	mr, err := pd.AllocMR(4096, ibv.LocalWrite|ibv.RemoteWrite, nil)
	if err != nil {
		return err
	}
	maps, before, own, t := mappings(), calls(), cpu(), time.Now()
	all := make([]*ibv.QP, n)
	for i := range all {
		if all[i], err = pd.CreateQP(cq, cq, nil); err != nil {
			return err
		}
	}
	took := time.Since(t)
	own = cpu() - own
	fmt.Println("qp_us", float64(took.Nanoseconds())/1e3/float64(n))
	fmt.Println("qp_cpu_us", float64(own.Nanoseconds())/1e3/float64(n))
	fmt.Println("qp_calls", float64(calls()-before)/float64(n))
	fmt.Println("mappings", mappings()-maps)
	if touch {
		for _, qp := range all {
			if err := fill(qp, mr, cq); err != nil {
				return err
			}
		}
	}
	fmt.Println("rss_kb", status("VmRSS:"))
	for _, c := range all {
		err = errors.Join(err, c.Close())
	}
	return errors.Join(err, mr.Close(), cq.Close(), pd.Close(), d.Close())
}

// fill connects a QP to itself and uses every place of its rings once.
func fill(qp *ibv.QP, mr *ibv.MR, cq *ibv.CQ) error {
	self, err := qp.Endpoint(1, ibv.BestGID)
	if err == nil {
		err = qp.Connect(self, nil)
	}
	if err != nil {
		return err
	}
	receives := make([]ibv.RecvWR, qp.Cap().MaxRecvWR)
	for i := range receives {
		receives[i].SGEs = []ibv.SGE{mr.SGE(0, 8)}
	}
	if _, err := qp.PostRecv(receives); err != nil {
		return err
	}
	sends := make([]ibv.SendWR, qp.Cap().MaxSendWR)
	for i := range sends {
		sends[i] = ibv.SendWR{Opcode: ibv.OpWrite, SGEs: []ibv.SGE{mr.SGE(0, 8)}, Remote: mr.Remote().At(0)}
	}
	sends[len(sends)-1].Flags = ibv.Signaled
	if _, err := qp.PostSend(sends); err != nil {
		return err
	}
	for wcs := make([]ibv.WC, 1); ; {
		switch n, err := cq.Poll(wcs); {
		case err != nil:
			return err
		case n > 0:
			return wcs[0].Err()
		}
	}
}

// cpu returns the processor time of this process, without the emulator's.
func cpu() time.Duration {
	var r syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &r)
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

func mappings() int {
	b, _ := os.ReadFile("/proc/self/maps")
	return bytes.Count(b, []byte("\n"))
}

// status returns a number of /proc/self/status.
func status(key string) (n int) {
	b, _ := os.ReadFile("/proc/self/status")
	_, rest, _ := bytes.Cut(b, []byte(key))
	_, _ = fmt.Sscan(string(rest), &n)
	return n
}
