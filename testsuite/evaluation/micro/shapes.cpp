// A tree of shapes: a point is inside one by a virtual function, which first asks the shapes that cut it (usually there
// are none), and then its own children.

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

namespace {

struct Point {
    double x, y;
};

struct Shape {
    std::vector<std::unique_ptr<Shape>> cuts;
    virtual ~Shape() = default;
    virtual bool inside(const Point &p) const = 0;

    bool isCut(const Point &p) const {
        for (const auto &cut : cuts) {
            if (cut->inside(p)) {
                return true;
            }
        }
        return false;
    }
};

struct Circle : Shape {
    double x, y, r;
    Circle(double x, double y, double r) : x(x), y(y), r(r) {}
    bool inside(const Point &p) const override {
        if (isCut(p)) {
            return false;
        }
        double dx = p.x - x, dy = p.y - y;
        return dx * dx + dy * dy < r * r;
    }
};

struct Box : Shape {
    double x, y, w, h;
    Box(double x, double y, double w, double h) : x(x), y(y), w(w), h(h) {}
    bool inside(const Point &p) const override {
        return !isCut(p) && p.x >= x && p.x < x + w && p.y >= y && p.y < y + h;
    }
};

struct Moved : Shape {
    double x, y;
    std::unique_ptr<Shape> shape;
    Moved(double x, double y, std::unique_ptr<Shape> shape) : x(x), y(y), shape(std::move(shape)) {}
    bool inside(const Point &p) const override {
        return !isCut(p) && shape->inside({p.x - x, p.y - y});
    }
};

struct Not : Shape {
    std::unique_ptr<Shape> shape;
    explicit Not(std::unique_ptr<Shape> shape) : shape(std::move(shape)) {}
    bool inside(const Point &p) const override { return isCut(p) || !shape->inside(p); }
};

// The last call is one that can be a jump.
struct Either : Shape {
    std::unique_ptr<Shape> first, second;
    Either(std::unique_ptr<Shape> first, std::unique_ptr<Shape> second)
        : first(std::move(first)), second(std::move(second)) {}
    bool inside(const Point &p) const override {
        for (const auto &cut : cuts) {
            if (cut->inside(p)) {
                return false;
            }
        }
        return first->inside(p) ? true : second->inside(p);
    }
};

unsigned state = 3;

double random(double limit) {
    state = state * 1664525 + 1013904223;
    return (state >> 8) * limit / (1 << 24);
}

std::unique_ptr<Shape> make(unsigned depth) {
    std::unique_ptr<Shape> shape;
    if (depth == 0) {
        double x = random(90), y = random(90), size = 1 + random(9);
        if (random(2) < 1) {
            shape = std::make_unique<Circle>(x, y, size);
        } else {
            shape = std::make_unique<Box>(x, y, size, size);
        }
    } else if (random(4) < 1) {
        double x = random(9), y = random(9);
        shape = std::make_unique<Moved>(x, y, make(depth - 1));
    } else if (random(16) < 1) {
        shape = std::make_unique<Not>(make(depth - 1));
    } else {
        auto first = make(depth - 1);
        shape = std::make_unique<Either>(std::move(first), make(depth - 1));
    }
    if (random(64) < 1) {
        shape->cuts.push_back(make(0));
    }
    return shape;
}

} // namespace

int main(int, char **arguments) {
    unsigned n = atoi(arguments[1]);
    auto shape = make(9);
    unsigned long inside = 0;
    for (unsigned y = 0; y < n; y++) {
        for (unsigned x = 0; x < n; x++) {
            inside += shape->inside({x * 100.0 / n, y * 100.0 / n});
        }
    }
    printf("%lu\n", inside);
}
