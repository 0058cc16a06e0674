//go:build linux

package verbs

import (
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/emu/internal/guest"
	"github.com/pureverbs/pureverbs/emu/internal/hca"
)

// open makes the file and the context of an open device, for process pid.
func (s *Server) open(device, pid int) (*file, error) {
	s.mu.Lock()
	s.next++
	n := s.next
	s.mu.Unlock()
	g, err := guest.NewFile(filePrefix+strconv.Itoa(n), fileSize)
	if err != nil {
		return nil, err
	}
	fl := &file{}
	for _, off := range []int64{coreClockOff, clockInfoOff} {
		p, err := g.Map(off, pageSize)
		if err != nil {
			g.Close()
			return nil, err
		}
		fl.pages = append(fl.pages, p)
	}
	fl.clock = clock{core: fl.pages[0], info: clockInfo(fl.pages[1])}
	s.f.Lock()
	fl.ctx = s.f.Devices[device].Open(pid, g)
	s.f.Unlock()
	s.mu.Lock()
	s.files[g.Name()] = fl
	if !s.ticking {
		s.ticking = true
		go s.run()
	}
	s.mu.Unlock()
	s.Tick()
	g.OnRelease(func() { s.release(fl) })
	return fl, nil
}

// release ends a context whose last descriptor and mapping is gone. What the program left undestroyed is reported.
func (s *Server) release(fl *file) {
	s.mu.Lock()
	if s.files[fl.ctx.File.Name()] == nil {
		s.mu.Unlock()
		return
	}
	delete(s.files, fl.ctx.File.Name())
	s.releasing++
	for _, p := range fl.pages {
		_ = unix.Munmap(p)
	}
	fl.pages = nil
	s.mu.Unlock()
	s.f.Lock()
	defer s.f.Unlock()
	// A process that was killed could not destroy anything, nor one whose device was removed.
	if l := hca.Leaked(fl.ctx); len(l) > 0 && !fl.ctx.Device.Gone && s.f.Watch != nil &&
		(fl.ctx.Ends || guest.Lives(fl.ctx.PID)) {
		s.f.Watch.Violation(fl.ctx.PID, "leak", fl.ctx.Device.Config.Name+": not destroyed: "+strings.Join(l, ", "))
	}
	fl.ctx.Release()
	for _, p := range s.spare[fl.ctx] {
		p.Close()
	}
	delete(s.spare, fl.ctx)
	fl.ctx.File.Close()
	s.mu.Lock()
	s.releasing--
	s.mu.Unlock()
}

// Exits is called when a process ends by itself.
func (s *Server) Exits(pid int) {
	s.f.Lock()
	defer s.f.Unlock()
	for _, d := range s.f.Devices {
		for _, c := range d.Contexts {
			if c.PID == pid {
				c.Ends = true
			}
		}
	}
}

// Settle waits a moment for the release of files whose last user has ended.
func (s *Server) Settle() {
	for range 500 {
		s.mu.Lock()
		n := len(s.files) + s.releasing // what is being released may have leaks to report
		s.mu.Unlock()
		if n == 0 {
			return
		}
		time.Sleep(2 * time.Millisecond)
	}
}
