// Recursive insertion into a search tree, and what goes with it: lookups, a walk, and its end.

#include <cstdio>
#include <cstdlib>

namespace {

struct Node {
    unsigned key;
    unsigned count;
    Node *left, *right;
};

Node *insert(Node *node, unsigned key) {
    if (!node) {
        return new Node{key, 1, nullptr, nullptr};
    }
    if (key < node->key) {
        node->left = insert(node->left, key);
    } else if (key > node->key) {
        node->right = insert(node->right, key);
    } else {
        node->count++;
    }
    return node;
}

unsigned long sum(const Node *node) {
    return node ? node->key * 3UL + node->count + sum(node->left) * 5 + sum(node->right) : 1;
}

unsigned depth(const Node *node) {
    if (!node) {
        return 0;
    }
    unsigned left = depth(node->left), right = depth(node->right);
    return 1 + (left > right ? left : right);
}

void end(Node *node) {
    if (node) {
        end(node->left);
        end(node->right);
        delete node;
    }
}

} // namespace

int main(int, char **arguments) {
    unsigned n = atoi(arguments[1]), state = 1;
    Node *root = nullptr;
    for (unsigned i = 0; i < n; i++) {
        state = state * 1664525 + 1013904223;
        root = insert(root, state >> 12);
    }
    printf("%lu %u\n", sum(root), depth(root));
    end(root);
}
