//go:build linux

package control

import (
	"bufio"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	maxLine        = 64 << 10
	maxConnections = 64
	patience       = 10 * time.Second // for a peer that does not read its answer
)

// Handler carries out a request. Its result becomes JSON.
type Handler func(words []string) (any, error)

// Server is the listening end of the control socket.
type Server struct {
	h Handler

	mu    sync.Mutex
	ls    []net.Listener
	conns map[net.Conn]bool
	done  bool
}

// Name returns an abstract name that nobody has.
func Name() string { return "@emu-" + rand.Text() }

// New returns a server that does not listen yet. Only the own user and root are served.
func New(h Handler) *Server { return &Server{h: h, conns: map[net.Conn]bool{}} }

// Listen serves requests at an address: a path or, with a leading @, an abstract name. A server has any number of them.
func (s *Server) Listen(address string) error {
	l, err := net.Listen("unix", address)
	if errors.Is(err, unix.EADDRINUSE) && removeLeftover(address) {
		l, err = net.Listen("unix", address)
	}
	if err != nil {
		return fmt.Errorf("control socket: %w", err)
	}
	s.Serve(l)
	return nil
}

// removeLeftover removes the socket of an emulator that was killed.
func removeLeftover(path string) bool {
	if st, err := os.Lstat(path); err != nil || st.Mode()&os.ModeSocket == 0 {
		return false
	}
	c, err := net.Dial("unix", path)
	if err == nil {
		c.Close()
	}
	return errors.Is(err, unix.ECONNREFUSED) && os.Remove(path) == nil
}

// Serve serves the connections of l, until Close.
func (s *Server) Serve(l net.Listener) {
	s.mu.Lock()
	s.ls = append(s.ls, l)
	s.mu.Unlock()
	go s.accept(l)
}

// Address returns the first address, for [Do].
func (s *Server) Address() string { return s.ls[0].Addr().String() }

// Close ends all connections.
func (s *Server) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.done = true
	for c := range s.conns {
		c.Close()
	}
	var err error
	for _, l := range s.ls {
		err = errors.Join(err, l.Close())
	}
	return err
}

func (s *Server) accept(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			if s.ended() {
				return
			}
			time.Sleep(10 * time.Millisecond) // out of descriptors
			continue
		}
		if !s.enter(c) {
			c.Close()
			continue
		}
		go s.serve(c)
	}
}

func (s *Server) ended() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.done
}

func (s *Server) enter(c net.Conn) bool {
	if !own(c) {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.done || len(s.conns) >= maxConnections {
		return false
	}
	s.conns[c] = true
	return true
}

func (s *Server) leave(c net.Conn) {
	c.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
}

// own reports whether the peer runs as the emulator's user, or root.
func own(c net.Conn) bool {
	raw, err := c.(*net.UnixConn).SyscallConn()
	if err != nil {
		return false
	}
	var cred *unix.Ucred
	_ = raw.Control(func(fd uintptr) { cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	return err == nil && cred != nil && (cred.Uid == 0 || int(cred.Uid) == os.Geteuid())
}

func (s *Server) serve(c net.Conn) {
	defer s.leave(c)
	in := bufio.NewScanner(c)
	in.Buffer(nil, maxLine)
	for in.Scan() {
		words := strings.Fields(in.Text())
		if len(words) == 0 {
			continue
		}
		v, err := s.h(words)
		b, err := encode(v, err)
		if err != nil {
			return
		}
		_ = c.SetWriteDeadline(time.Now().Add(patience))
		if _, err := c.Write(append(b, '\n')); err != nil {
			return
		}
	}
}

type answer struct {
	OK    any    `json:"ok,omitempty"`
	Error string `json:"error,omitempty"`
}

func encode(v any, err error) ([]byte, error) {
	if err != nil {
		return json.Marshal(answer{Error: err.Error()})
	}
	if v == nil {
		v = true
	}
	return json.Marshal(answer{OK: v})
}
