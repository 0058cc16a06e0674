//go:build linux

package sysfs

import (
	"encoding/binary"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/pureverbs/pureverbs/emu/internal/config"
)

// Counters of mlx5 that every port has, as their files are named.
var (
	counters = strings.Fields(`
		VL15_dropped excessive_buffer_overrun_errors link_downed link_error_recovery local_link_integrity_errors
		multicast_rcv_packets multicast_xmit_packets port_rcv_constraint_errors port_rcv_data port_rcv_errors
		port_rcv_packets port_rcv_remote_physical_errors port_rcv_switch_relay_errors port_xmit_constraint_errors
		port_xmit_data port_xmit_discards port_xmit_packets port_xmit_wait symbol_error unicast_rcv_packets
		unicast_xmit_packets`)
	hwCounters = strings.Fields(`
		duplicate_request implied_nak_seq_err local_ack_timeout_err np_cnp_sent np_ecn_marked_roce_packets
		out_of_buffer out_of_sequence packet_seq_err req_cqe_error req_cqe_flush_error req_remote_access_errors
		req_remote_invalid_request resp_cqe_error resp_cqe_flush_error resp_local_length_error
		resp_remote_access_errors rnr_nak_retry_err roce_adp_retrans roce_adp_retrans_to roce_slow_restart
		roce_slow_restart_cnps roce_slow_restart_trans rp_cnp_handled rp_cnp_ignored rx_atomic_requests
		rx_icrc_encapsulated rx_read_requests rx_write_requests`)
)

// HWCounters returns the names of the driver's counters of a port, in order.
func HWCounters() []string { return hwCounters }

func stateText(s config.PortState) string { return fmt.Sprintf("%d: %v", s, s) }

func physText(s config.PhysState) string { return fmt.Sprintf("%d: %v", s, s) }

func either(b bool, yes, no string) string {
	if b {
		return yes
	}
	return no
}

func operstate(s config.PortState) string { return either(s == config.PortActive, "up", "down") }

func carrier(s config.PortState) string { return either(s == config.PortActive, "1", "0") }

// flags are those of an interface, with IFF_BROADCAST and IFF_MULTICAST.
func flags(up bool) string { return either(up, "0x1003", "0x1002") }

// cpus returns the processors near a NUMA node, as a mask and as a list: all of them if it is -1 or not there.
func cpus(node int) (mask, list string) {
	b, err := os.ReadFile(fmt.Sprintf("/sys/devices/system/node/node%d/cpulist", node))
	if err != nil {
		b, _ = os.ReadFile("/sys/devices/system/cpu/present")
	}
	list = strings.TrimSpace(string(b))
	words := []uint32{0}
	for _, r := range strings.Split(list, ",") {
		lo, hi, ok := strings.Cut(r, "-")
		if !ok {
			hi = lo
		}
		first, err1 := strconv.Atoi(lo)
		last, err2 := strconv.Atoi(hi)
		for i := first; err1 == nil && err2 == nil && i >= 0 && i <= last && i < 1<<16; i++ {
			for i/32 >= len(words) {
				words = append(words, 0)
			}
			words[i/32] |= 1 << (i % 32)
		}
	}
	for i := len(words) - 1; i >= 0; i-- {
		mask += fmt.Sprintf("%08x", words[i])
		if i > 0 {
			mask += ","
		}
	}
	return mask, list
}

const subsystem = 0x0001

// pciHeader is the first part of the configuration space, little-endian: a device of a class without memory or
// capabilities.
func pciHeader(id uint16, class string) []byte {
	h := make([]byte, 64)
	binary.LittleEndian.PutUint16(h, config.PCIVendor)
	binary.LittleEndian.PutUint16(h[2:], id)
	h[4] = 6 // memory space, bus master
	c, _ := strconv.ParseUint(class, 16, 24)
	binary.LittleEndian.PutUint32(h[8:], uint32(c)<<8)
	binary.LittleEndian.PutUint16(h[0x2c:], config.PCIVendor)
	binary.LittleEndian.PutUint16(h[0x2e:], subsystem)
	return h
}

func hex(v int) string { return fmt.Sprintf("0x%04x", v) }

// machine is where the machine's own /sys lies: in tests elsewhere.
var machine = ""

func exists(path string) bool {
	_, err := os.Lstat(machine + path)
	return err == nil
}
