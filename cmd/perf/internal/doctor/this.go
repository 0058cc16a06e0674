package doctor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/dcb"
	"github.com/pureverbs/pureverbs/hostfacts"
	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/loader"
)

// This returns this machine.
func This() *Host {
	return &Host{Facts: hostfacts.This(), Dev: "/dev", Access: access, Load: loader.Report,
		Unlisted: ibv.Unlisted, MTUs: activeMTUs, Register: register, Rules: rules, Container: container(),
		DCB: dcb.Read, Second: func() { time.Sleep(time.Second) }}
}

// activeMTUs opens a device.
func activeMTUs(name string) (map[int]int, error) {
	out := map[int]int{}
	dev, err := ibv.Open(name)
	if err != nil {
		return nil, err
	}
	defer dev.Close()
	attr, err := dev.QueryDevice()
	if err != nil {
		return nil, err
	}
	for port := 1; port <= int(attr.PhysPortCnt); port++ {
		p, err := dev.QueryPort(uint8(port))
		if err != nil {
			return out, err
		}
		out[port] = p.ActiveMTU.Bytes()
	}
	return out, nil
}

// register registers memory that nothing has touched.
func register(name string, bytes int) error {
	dev, err := ibv.Open(name)
	if err != nil {
		return err
	}
	defer dev.Close()
	pd, err := dev.AllocPD()
	if err != nil {
		return err
	}
	defer pd.Close()
	mr, err := pd.AllocMR(bytes, 0, nil)
	if err != nil {
		return err
	}
	return mr.Close()
}

func access(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return f.Close()
}

func container() string {
	for _, f := range []string{"/.dockerenv", "/run/.containerenv", "/var/run/secrets/kubernetes.io",
		"/run/systemd/container"} {
		if _, err := os.Stat(f); err == nil {
			return f
		}
	}
	return ""
}

// rules reads the packet filter, which only root may. Reading must not load the filter's modules.
func rules() (text, from string, err error) {
	loaded := func(file string) bool { _, err := os.Stat(file); return err == nil }
	if !loaded("/sys/module/nf_tables") && !loaded("/sys/module/ip_tables") {
		return "", "neither nf_tables nor ip_tables in /sys/module", nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	var all []string
	for _, args := range [][]string{{"nft", "list", "ruleset"}, {"iptables-save"}} {
		out, err := exec.CommandContext(ctx, args[0], args[1:]...).Output()
		if err == nil {
			return string(out), fmt.Sprint(args), nil
		}
		all = append(all, err.Error())
	}
	return "", "", errors.New(strings.Join(all, "; "))
}
