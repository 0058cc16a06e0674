// Package emutest tests package emu/emutest as a module outside this one uses it.
package emutest
