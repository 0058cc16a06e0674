//go:build linux

package notify

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// roleNet is the process that makes sockets in a namespace of its own and then becomes the init.
const roleNet = "emu:net"

// Net is a network namespace of the program's own, and sockets in it that the supervisor uses. Its first process waits,
// and becomes the program's init when the program is started in it.
type Net struct {
	Route  *os.File    // a NETLINK_ROUTE socket
	Watch  *os.File    // another one, which hears of changes of interfaces and addresses, and does not block
	UDP    [2]*os.File // unconnected: for IPv4 and, nil where the machine has none, IPv6
	Listen *os.File    // listens in the unix domain

	pid, ctl, up int
}

// NewNet makes a namespace: as root its own alone, as anybody else in a user namespace where the user keeps the own id.
// address, "@name", is the abstract name where Listen is.
func NewNet(address string) (*Net, error) {
	n := &Net{ctl: -1, up: -1}
	attr := &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET}
	if uid, gid := os.Geteuid(), os.Getegid(); uid != 0 {
		attr.Cloneflags |= unix.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: gid, HostID: gid, Size: 1}}
		attr.AmbientCaps = []uintptr{unix.CAP_NET_ADMIN} // until there is a program
	}
	var err error
	n.pid, n.ctl, n.up, err = spawn(roleNet, [3]uintptr{0, 1, 2}, nil, attr, address)
	if err != nil {
		return nil, fmt.Errorf("make a network namespace: %w", err)
	}
	fds, err := n.sockets()
	if err != nil {
		n.Close()
		return nil, fmt.Errorf("make a network namespace: %w", err)
	}
	n.Route, n.Listen, n.UDP[0], n.Watch = fds[0], fds[1], fds[2], fds[3]
	if len(fds) > 4 {
		n.UDP[1] = fds[4]
	}
	return n, nil
}

// sockets takes what runNet sends.
func (n *Net) sockets() ([]*os.File, error) {
	buf := make([]byte, 256)
	k, fds, err := take(n.up, buf, 5)
	if err != nil || k == 0 {
		return nil, errors.Join(err, unix.ECHILD)
	}
	var step string
	var e int
	if _, err := fmt.Sscanf(string(buf[:k]), "E %s %d", &step, &e); err == nil {
		return nil, os.NewSyscallError(step, unix.Errno(e))
	}
	if len(fds) < 4 {
		return nil, unix.EPROTO
	}
	files := make([]*os.File, len(fds))
	for i, fd := range fds {
		files[i] = os.NewFile(uintptr(fd), "socket")
	}
	return files, nil
}

// Close gives up the namespace: if no program was started in it, its process ends.
func (n *Net) Close() {
	for _, f := range []*os.File{n.Route, n.Watch, n.Listen, n.UDP[0], n.UDP[1]} {
		if f != nil {
			f.Close()
		}
	}
	if n.pid != 0 {
		unix.Close(n.ctl)
		unix.Close(n.up)
		ended(n.pid)
		n.pid = 0
	}
}

// becoming is what the process of a namespace becomes.
type becoming struct {
	Args, Env []string
}

// start makes the namespace's process the init with args.
func (n *Net) start(b *becoming) (pid, ctl, up int, err error) {
	if n.pid == 0 {
		return 0, -1, -1, errors.New("the network namespace is used up")
	}
	text, err := json.Marshal(b)
	if err != nil {
		return 0, -1, -1, err
	}
	fd, err := unix.MemfdCreate("start", unix.MFD_CLOEXEC)
	if err != nil {
		return 0, -1, -1, os.NewSyscallError("memfd_create", err)
	}
	f := os.NewFile(uintptr(fd), "start")
	defer f.Close()
	if _, err := f.WriteAt(text, 0); err != nil {
		return 0, -1, -1, err
	}
	if err := unix.Sendmsg(n.ctl, []byte("start"), unix.UnixRights(fd), nil, unix.MSG_NOSIGNAL); err != nil {
		return 0, -1, -1, os.NewSyscallError("sendmsg", err)
	}
	pid, n.pid = n.pid, 0
	return pid, n.ctl, n.up, nil
}

// runNet makes the sockets, hands them over, and becomes the init.
func runNet() {
	address := os.Args[1]
	ctl, _ := strconv.Atoi(os.Args[2])
	up, _ := strconv.Atoi(os.Args[3])
	var fds []int
	socket := func(family, typ, proto int) error {
		fd, err := unix.Socket(family, typ|unix.SOCK_CLOEXEC, proto)
		if err == nil {
			fds = append(fds, fd)
		}
		return err
	}
	for _, do := range []func() error{
		func() error { return socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE) },
		func() error { return socket(unix.AF_UNIX, unix.SOCK_STREAM, 0) },
		func() error { return unix.Bind(fds[1], &unix.SockaddrUnix{Name: address}) },
		func() error { return unix.Listen(fds[1], 64) },
		func() error { return socket(unix.AF_INET, unix.SOCK_DGRAM, 0) },
		func() error { return socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_NONBLOCK, unix.NETLINK_ROUTE) },
		func() error {
			return unix.Bind(fds[3], &unix.SockaddrNetlink{Family: unix.AF_NETLINK,
				Groups: unix.RTMGRP_LINK | unix.RTMGRP_IPV4_IFADDR | unix.RTMGRP_IPV6_IFADDR})
		},
	} {
		if err := do(); err != nil {
			report(up, "socket", err)
			return
		}
	}
	_ = socket(unix.AF_INET6, unix.SOCK_DGRAM, 0)
	if err := unix.Sendmsg(up, []byte("N"), unix.UnixRights(fds...), nil, unix.MSG_NOSIGNAL); err != nil {
		return
	}
	b, err := become(ctl)
	if err != nil {
		return // the supervisor does without, or has ended
	}
	// The program gets no more than it would have had.
	_ = unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
	if os.Geteuid() != 0 {
		none := [2]unix.CapUserData{}
		_ = unix.Capset(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &none[0])
	}
	copy(b.Args[2:4], os.Args[2:4]) // the descriptors
	report(up, "exec", syscall.Exec("/proc/self/exe", b.Args, b.Env))
}

// become waits for what to become.
func become(ctl int) (*becoming, error) {
	_, fds, err := take(ctl, make([]byte, 16), 1)
	if err != nil || len(fds) != 1 {
		return nil, errors.Join(err, io.EOF)
	}
	f := os.NewFile(uintptr(fds[0]), "start")
	defer f.Close()
	b := new(becoming)
	if err := json.NewDecoder(f).Decode(b); err != nil || len(b.Args) < 4 {
		return nil, errors.Join(err, unix.EPROTO)
	}
	return b, nil
}
