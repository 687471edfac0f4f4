// Reads a log of ours with golang.org/x/mod/sumdb: its note and tlog packages share no code with us.
//
//	readlog FOLDER VKEY PROOFS    checks the checkpoint's signature, every entry, and the proofs in PROOFS (JSON)
//	readlog sign TEXT             signs TEXT with a new key, for us to check
//
// Prints one JSON object. What does not verify ends it with an error and exit code 1.
package main

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

const height = 8

type proofs struct {
	Inclusion map[string][]string // index: hashes from the leaf's sibling upwards, in hex
	Older     map[string]string   // size of an earlier tree: its root in hex
	Grown     map[string][]string // size of an earlier tree: its consistency proof in hex
}

func main() {
	var result any
	var err error
	if len(os.Args) == 3 && os.Args[1] == "sign" {
		result, err = sign(os.Args[2])
	} else if len(os.Args) == 4 {
		result, err = read(os.Args[1], os.Args[2], os.Args[3])
	} else {
		err = errors.New("usage: readlog FOLDER VKEY PROOFS | sign TEXT")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	json.NewEncoder(os.Stdout).Encode(result)
}

func sign(text string) (any, error) {
	skey, vkey, err := note.GenerateKey(rand.Reader, "other.example/tool")
	if err != nil {
		return nil, err
	}
	signer, err := note.NewSigner(skey)
	if err != nil {
		return nil, err
	}
	signed, err := note.Sign(&note.Note{Text: text}, signer)
	return map[string]string{"vkey": vkey, "note": string(signed)}, err
}

func read(folder, vkey, proofFile string) (any, error) {
	verifier, err := note.NewVerifier(vkey)
	if err != nil {
		return nil, err
	}
	message, err := os.ReadFile(filepath.Join(folder, "checkpoint"))
	if err != nil {
		return nil, err
	}
	opened, err := note.Open(message, note.VerifierList(verifier))
	if err != nil {
		return nil, fmt.Errorf("checkpoint: %w", err)
	}
	lines := strings.Split(opened.Text, "\n")
	size, err := strconv.ParseInt(lines[1], 10, 64)
	if err != nil {
		return nil, err
	}
	root, err := tlog.ParseHash(lines[2])
	if err != nil {
		return nil, err
	}
	// This reader checks every tile that it fetches against the root.
	reader := tlog.TileHashReader(tlog.Tree{N: size, Hash: root}, tiles{folder})
	content, err := os.ReadFile(proofFile)
	if err != nil {
		return nil, err
	}
	var ours proofs
	if err := json.Unmarshal(content, &ours); err != nil {
		return nil, err
	}
	if err := entries(folder, size, root, reader, ours.Inclusion); err != nil {
		return nil, err
	}
	if err := check(ours, size, root, reader); err != nil {
		return nil, err
	}
	return map[string]any{
		"origin": lines[0], "size": size, "root": hex.EncodeToString(root[:]), "key": opened.Sigs[0].Name,
		"inclusion": len(ours.Inclusion), "consistency": len(ours.Grown),
	}, nil
}

// entries checks that the bundles hold the entries of the tree at every index that is asked for, and nothing left over.
func entries(folder string, size int64, root tlog.Hash, reader tlog.HashReader, asked map[string][]string) error {
	for first := int64(0); first < size; first += 1 << height {
		width := min(size-first, 1<<height)
		path := tlog.Tile{H: height, L: -1, N: first >> height, W: int(width)}.Path()
		path = strings.Replace(path, fmt.Sprintf("tile/%d/data/", height), "tile/entries/", 1)
		bundle, err := os.ReadFile(filepath.Join(folder, path))
		if err != nil {
			return err
		}
		for index := first; index < first+width; index++ {
			length := int(binary.BigEndian.Uint16(bundle))
			entry := bundle[2 : 2+length]
			bundle = bundle[2+length:]
			if _, is := asked[strconv.FormatInt(index, 10)]; !is {
				continue
			}
			proof, err := tlog.ProveRecord(size, index, reader)
			if err != nil {
				return fmt.Errorf("entry %d: %w", index, err)
			}
			if err := tlog.CheckRecord(proof, size, root, index, tlog.RecordHash(entry)); err != nil {
				return fmt.Errorf("entry %d: %w", index, err)
			}
		}
		if len(bundle) != 0 {
			return fmt.Errorf("%s: has bytes left over", path)
		}
	}
	return nil
}

// check has the library check our proofs, and compares our roots of earlier trees with its own.
func check(ours proofs, size int64, root tlog.Hash, reader tlog.HashReader) error {
	for text, offered := range ours.Inclusion {
		index, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return err
		}
		proof, err := hashes(offered)
		if err != nil {
			return err
		}
		stored, err := reader.ReadHashes([]int64{tlog.StoredHashIndex(0, index)})
		if err != nil {
			return err
		}
		if err := tlog.CheckRecord(proof, size, root, index, stored[0]); err != nil {
			return fmt.Errorf("our proof of entry %d: %w", index, err)
		}
	}
	for text, offered := range ours.Grown {
		older, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return err
		}
		proof, err := hashes(offered)
		if err != nil {
			return err
		}
		olderRoot, err := hashes([]string{ours.Older[text]})
		if err != nil {
			return err
		}
		theirs, err := tlog.TreeHash(older, reader)
		if err != nil {
			return err
		}
		if !bytes.Equal(theirs[:], olderRoot[0][:]) {
			return fmt.Errorf("our root of %d entries is another", older)
		}
		if err := tlog.CheckTree(proof, size, root, older, olderRoot[0]); err != nil {
			return fmt.Errorf("our proof that %d entries grew: %w", older, err)
		}
	}
	return nil
}

func hashes(texts []string) ([]tlog.Hash, error) {
	found := make([]tlog.Hash, len(texts))
	for i, text := range texts {
		raw, err := hex.DecodeString(text)
		if err != nil || len(raw) != tlog.HashSize {
			return nil, fmt.Errorf("%q is no hash", text)
		}
		copy(found[i][:], raw)
	}
	return found, nil
}

func min(a, b int64) int64 {
	if a < b {
		return a
	}
	return b
}

// tiles reads tiles from a folder laid out as C2SP tlog-tiles says: the library's own paths name the height too.
type tiles struct{ folder string }

func (t tiles) Height() int { return height }

func (t tiles) ReadTiles(wanted []tlog.Tile) ([][]byte, error) {
	found := make([][]byte, len(wanted))
	for i, tile := range wanted {
		path := strings.Replace(tile.Path(), fmt.Sprintf("tile/%d/", height), "tile/", 1)
		content, err := os.ReadFile(filepath.Join(t.folder, path))
		if err != nil {
			return nil, err
		}
		found[i] = content
	}
	return found, nil
}

func (t tiles) SaveTiles([]tlog.Tile, [][]byte) {}
