// Package mesh measures each pair of many hosts, by agents that run on them, and names those that are slow.
package mesh
